#include "tools/farandole/operations_page.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "actors/submission/request_check.hpp"
#include "collectives/operation.hpp"
#include "collectives/transport/path_table.hpp"

namespace farandole {

namespace {

// Size of the process set for which requests are validated: a power of two, which Adasum requires.
constexpr std::int32_t members = 2;

std::string columns(std::size_t count) {
  std::string line = "|";
  for (std::size_t i = 0; i < count; ++i)
    line += " --- |";
  return line + "\n";
}

std::string cell(std::string_view text) {
  return " " + std::string(text) + " |";
}

bool takes(operation op, dtype type, reduce_op reduction) {
  submission asked;
  asked.name = "tensor";
  asked.signature.operation = op;
  asked.signature.dtype = type;
  asked.signature.reduce_op = reduction;
  asked.signature.root = row_of(op).has_root ? 0 : -1;
  asked.signature.shape = {members};
  return !wrong_request(asked, members);
}

std::string dtypes_of(operation op, reduce_op reduction) {
  std::string taken, refused;
  for (std::size_t i = 0; i < dtype_count; ++i) {
    const auto type = static_cast<dtype>(i);
    auto& list = takes(op, type, reduction) ? taken : refused;
    list += (list.empty() ? "" : ", ") + std::string(to_string(type));
  }
  if (taken.empty())
    return "–";
  return refused.empty() ? "all" : refused.find(',') == std::string::npos ? "all but " + refused : taken;
}

bool has_tensor(const operation_row& row) {
  return row.moves_tensor;
}

std::string_view on_fast_path(fast_path_use usage) {
  switch (usage) {
  case fast_path_use::bytes:
    return "small, or when waited for";
  case fast_path_use::collective:
    return "when waited for";
  default:
    return "–";
  }
}

/// Numbers footnotes in the order of their first use. Equal texts share a number.
class footnotes {
public:
  std::string mark(std::string_view text) {
    auto found = std::find(texts_.begin(), texts_.end(), text);
    if (found == texts_.end())
      found = texts_.emplace(texts_.end(), text);
    return "<sup>" + std::to_string(found - texts_.begin() + 1) + "</sup>";
  }
  std::string list() const {
    std::string list;
    for (const auto& text : texts_)
      list += (list.empty() ? "\n" : "") + std::to_string(&text - texts_.data() + 1) + ". " + text + ".\n";
    return list;
  }

private:
  std::vector<std::string> texts_;
};

std::string where_it_runs() {
  footnotes reasons;
  std::string text = "## Where each operation runs\n\n| operation |";
  for (const auto& path : path_table())
    text += cell(path.name);
  text += " fast path |\n" + columns(path_table().size() + 2);
  for (const auto& asked : operation_table) {
    text += "|" + cell(asked.name);
    for (const auto& path : path_table())
      text += cell(path.moves(asked.id) ? "yes" : "–" + reasons.mark(path.why_not[asked.id]));
    text += cell(on_fast_path(asked.on_fast_path)) + "\n";
  }
  text += reasons.list();
  text += "\nFarandole uses the first path, from left to right, that the process set and the settings allow. "
          "Each "
          "path needs:\n\n";
  for (const auto& path : path_table())
    text += "- " + std::string(path.name) + ": " + std::string(path.needs) + "\n";
  text +=
      "- fast path: several members, all on one host, and a tensor whose name has been used before "
      "(`FARANDOLE_FAST_PATH`). \"small\": up to `FARANDOLE_FAST_PATH_LIMIT`. \"when waited for\": any size, "
      "if the calls of all members are synchronous (`allreduce`, not `allreduce_async`)\n";
  text +=
      "\nBetween hosts, rank 0 reduces an allreduce of up to `FARANDOLE_INLINE_LIMIT` bytes itself if the "
      "name "
      "of the tensor has been used before: the bytes travel with the request, and no path is used. This does "
      "not apply to Adasum, to groups, while a rank has joined, to jobs with relays, and if "
      "`FARANDOLE_CPU_PATH` names a path.\n";
  text += "\nAn allreduce with Adasum uses hierarchical if all hosts have 2, 4, 8 … consecutive ranks, or if "
          "ranks "
          "are assigned to hosts in turn; otherwise tcp. An Average of integers uses tcp instead of "
          "hierarchical.\n";
  return text;
}

std::string what_each_takes() {
  std::string text = "\n## Data types\n\n| operation |";
  for (std::size_t i = 0; i < reduce_op_count; ++i)
    text += cell(to_string(static_cast<reduce_op>(i)));
  text += " without reduction |\n" + columns(reduce_op_count + 2);
  for (const auto& asked : operation_table) {
    if (!has_tensor(asked))
      continue;
    text += "|" + cell(asked.name);
    for (std::size_t i = 0; i < reduce_op_count; ++i)
      text += cell(asked.reduces ? dtypes_of(asked.id, static_cast<reduce_op>(i)) : "–");
    text += cell(asked.reduces ? "–" : dtypes_of(asked.id, reduce_op::sum)) + "\n";
  }
  text += "\nElement types:";
  for (std::size_t i = 0; i < dtype_count; ++i)
    text += (i ? ", " : " ") + std::string(to_string(static_cast<dtype>(i)));
  return text + ". In PyTorch, TensorFlow, JAX and NumPy, operations that do not reduce move elements of "
                "other types, "
                "such as complex numbers, as bytes. Adasum needs a number of ranks that is a power of two.\n";
}

std::string how_ranks_agree() {
  std::string text = "\n## What ranks must agree on, and how the runtime handles it\n\n"
                     "| operation | same shape | own first dimension | scalars | root | fused | by id | with "
                     "joined ranks |\n" +
                     columns(8);
  const auto said = [](bool yes) { return cell(yes ? "yes" : "–"); };
  for (const auto& asked : operation_table) {
    const bool tensor = has_tensor(asked);
    text += "|" + cell(asked.name) + said(tensor && !asked.first_dim_free()) + said(asked.first_dim_free()) +
            said(tensor && !asked.has_rows()) + said(asked.has_root) + said(asked.fusible) +
            said(asked.id != operation::join) + said(asked.takes_zeros) + "\n";
  }
  return text;
}

} // namespace

std::string operations_tables() {
  return where_it_runs() + what_each_takes() + how_ranks_agree();
}

} // namespace farandole
