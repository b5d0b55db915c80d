#include <catch2/catch.hpp>

#include "actors/pmi/job_entry.hpp"
#include "actors/pmi/pmi_line.hpp"

using namespace farandole;
using Catch::Contains;

namespace {

const std::string secret(64, 'a');

std::string refusal(const std::string& text) {
  const auto entry = parse_job_entry(text);
  return entry ? "accepted" : entry.error().text;
}

} // namespace

TEST_CASE("an entry is decoded to what rank 0 encoded, and every process manager can carry it", "[pmi]") {
  for (const auto& entry :
       {job_entry{{"10.0.0.1"}, 40123, secret}, job_entry{{"10.0.0.1", "fd00::1"}, 1, ""}, job_entry{}}) {
    const auto text = encode_job_entry(entry);
    CHECK(is_pmi_value(text));
    CHECK(text.size() < 1000);
    const auto decoded = parse_job_entry(text);
    REQUIRE(decoded);
    CHECK(*decoded == entry);
  }
}

TEST_CASE("an entry that is not valid is refused with the reason, and its secret is not repeated", "[pmi]") {
  CHECK_THAT(refusal(""), Contains("another version"));
  CHECK_THAT(refusal("farandole-1;10.0.0.1;1;-"), Contains("another version"));
  CHECK_THAT(refusal("farandole-2;10.0.0.1;1"), Contains("incomplete"));
  CHECK_THAT(refusal("farandole-2;10.0.0.1;1;-;-"), Contains("incomplete"));
  CHECK_THAT(refusal("farandole-2;10.0.0.256;1;-"), Contains("no numeric address"));
  CHECK_THAT(refusal("farandole-2;localhost;1;-"), Contains("no numeric address"));
  CHECK_THAT(refusal("farandole-2;10.0.0.1,;1;-"), Contains("no numeric address"));
  CHECK_THAT(refusal(std::string("farandole-2;10.0.0.1\0x;1;-", 26)), Contains("no numeric address"));
  for (const auto* port : {"0", "65536", "-1", "1x", ""})
    CHECK_THAT(refusal("farandole-2;10.0.0.1;" + std::string(port) + ";-"), Contains("port is not valid"));
  const auto text = refusal("farandole-2;10.0.0.1;4000;" + secret + "a");
  CHECK_THAT(text, Contains("secret is not valid"));
  CHECK_THAT(text, !Contains("aaaa"));
  CHECK_THAT(refusal("farandole-2;10.0.0.1;4000;" + std::string(64, 'A')), Contains("secret is not valid"));
}
