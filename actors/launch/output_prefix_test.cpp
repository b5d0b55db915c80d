#include "actors/launch/output_prefix.hpp"

#include <catch2/catch.hpp>

using farandole::output_prefix;

TEST_CASE("every line gets the prefix, also an empty line", "[output]") {
  output_prefix prefix("[0]<stdout>:");
  CHECK(prefix.take("a\n\nb\n", "") == "[0]<stdout>:a\n[0]<stdout>:\n[0]<stdout>:b\n");
}

TEST_CASE("a line is written once it is complete", "[output]") {
  output_prefix prefix("[1]<stderr>:");
  CHECK(prefix.take("hel", "").empty());
  CHECK(prefix.take("lo", "").empty());
  CHECK(prefix.take("\nrest", "") == "[1]<stderr>:hello\n");
  CHECK(prefix.end("") == "[1]<stderr>:rest\n");
  CHECK(prefix.end("").empty());
}

TEST_CASE("an interactive program's question is written before its line is complete", "[output]") {
  output_prefix prefix("[0]<stdout>:", true);
  CHECK(prefix.take("> stop.py(3)\n(Pdb) ", "") == "[0]<stdout>:> stop.py(3)\n[0]<stdout>:(Pdb) ");
  CHECK(prefix.take("5\n(Pdb) ", "") ==
        "5\n[0]<stdout>:(Pdb) "); // the user's newline is on the terminal already
  CHECK(prefix.take("caf\xc3", "") == "caf");
  CHECK(prefix.take("\xa9 ", "") == "\xc3\xa9 ");
  CHECK(prefix.take("\x80\x80\x80", "").empty());
  CHECK(prefix.end("") == "\x80\x80\x80\n");
}

TEST_CASE("a carriage return ends a line, and with a newline it ends one line, not two", "[output]") {
  output_prefix prefix("p:");
  CHECK(prefix.take("10%\r20%\r", "") == "p:10%\rp:20%\r");
  CHECK(prefix.take("\nx\r\ny\n", "") == "\np:x\r\np:y\n");
}

TEST_CASE("the same bytes in any pieces give the same text", "[output]") {
  const std::string text = "one\r\ntwo\r10%\r\n\n\xe2\x82\xac drei\n\r\nrest";
  std::string whole;
  {
    output_prefix prefix("[7]:");
    whole = prefix.take(text, "");
    whole += prefix.end("");
  }
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    output_prefix prefix("[7]:");
    std::string got;
    for (std::size_t at = 0; at < text.size(); at += piece)
      got += prefix.take(std::string_view(text).substr(at, piece), "");
    got += prefix.end("");
    CHECK(got == whole);
  }
}

TEST_CASE("the time stands directly before the prefix", "[output]") {
  output_prefix prefix("[0]<stdout>:");
  CHECK(prefix.take("hi\n", "Mon Jan  5 09:00:00 2026") == "Mon Jan  5 09:00:00 2026[0]<stdout>:hi\n");
}

TEST_CASE("an endless line is held up to a limit, then written in whole characters with one prefix",
          "[output]") {
  output_prefix prefix("p:");
  const std::string euro = "\xe2\x82\xac";
  std::string text(output_prefix::longest_held, 'x');
  text += euro.substr(0, 2);
  CHECK(prefix.take(text, "") == "p:" + text.substr(0, output_prefix::longest_held));
  CHECK(prefix.take(euro.substr(2) + "\nnext\n", "") == euro + "\np:next\n");
}
