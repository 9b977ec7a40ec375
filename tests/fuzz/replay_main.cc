// Runs a fuzzer over its corpus where there is no libFuzzer: each file whole, cut at many places,
// and with single bytes changed. Fails if the corpus is empty.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kVariantsMax = 256;

size_t Run(const std::vector<uint8_t>& input) {
  // An exact copy per run, so that a read past the end meets the end of an allocation.
  LLVMFuzzerTestOneInput(input.data(), input.size());
  size_t runs = 1;
  const size_t step = std::max<size_t>(input.size() / kVariantsMax, 1);
  for (size_t at = 0; at < input.size(); at += step) {
    const std::vector<uint8_t> cut(input.begin(), input.begin() + static_cast<ptrdiff_t>(at));
    LLVMFuzzerTestOneInput(cut.data(), cut.size());
    std::vector<uint8_t> changed = input;
    for (const unsigned mask : {0x01U, 0x80U, 0xffU}) {
      changed[at] = static_cast<uint8_t>(input[at] ^ mask);
      LLVMFuzzerTestOneInput(changed.data(), changed.size());
    }
    runs += 4;
  }
  return runs;
}

}  // namespace

int main(int argc, char** argv) {
  size_t runs = 0;
  size_t files = 0;
  for (int i = 1; i < argc; ++i) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i], error)) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::vector<uint8_t> input((std::istreambuf_iterator<char>(file)), {});
      runs += Run(input);
      ++files;
    }
  }
  std::printf("%zu files, %zu runs\n", files, runs);
  return files == 0 ? 1 : 0;
}
