#include "nvm/disk/disk_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <numeric>

namespace kvstored::nvm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DiskDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* base = std::getenv("TMPDIR");
    root_ = std::string(base != nullptr ? base : "/tmp") + "/kvs_disk_XXXXXX";
    ASSERT_NE(::mkdtemp(root_.data()), nullptr);
    auto device = OpenDiskDevice(root_ + "/data");
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }
  void TearDown() override {
    ASSERT_TRUE(device_->Remove("x").ok());
    auto parent = OpenDiskDevice(root_);
    ASSERT_TRUE(parent.ok());
    ASSERT_TRUE((*parent)->Remove("data").ok());
    ::rmdir(root_.c_str());
  }
  static void Put(NvmFile* file, uint64_t offset, std::string text) {
    const iovec piece = {text.data(), text.size()};
    ASSERT_TRUE(file->Write(offset, {&piece, 1}).ok());
  }
  static std::string Get(NvmFile* file, uint64_t offset, size_t n) {
    std::string text(n, '?');
    const absl::Status status =
        file->Read(offset, {reinterpret_cast<uint8_t*>(text.data()), text.size()});
    return status.ok() ? text : std::string(status.message());
  }

  std::string root_;
  std::unique_ptr<NvmDevice> device_;
};

TEST_F(DiskDeviceTest, MadeDirectoryIsPrivate) {
  struct stat facts;
  ASSERT_EQ(::stat((root_ + "/data").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
  ASSERT_TRUE(device_->MakeDirectory("log").ok());
  ASSERT_TRUE(device_->MakeDirectory("log").ok());
  ASSERT_EQ(::stat((root_ + "/data/log").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
}

TEST_F(DiskDeviceTest, CreatePrewritesZeros) {
  auto file = device_->Create("a", 3 << 20);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->size_bytes(), 3u << 20);
  EXPECT_EQ(Get(file->get(), (3 << 20) - 4, 4), std::string(4, '\0'));
  struct stat facts;
  ASSERT_EQ(::stat((root_ + "/data/a").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_GE(facts.st_blocks * 512, 3 << 20);
  EXPECT_EQ(device_->Create("a", 0).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(DiskDeviceTest, WriteManyPiecesReadBack) {
  auto file = device_->Create("a", 0);
  ASSERT_TRUE(file.ok());
  std::vector<std::string> texts;
  std::vector<iovec> pieces;
  std::string all;
  for (int i = 0; i < 3000; ++i) {
    texts.push_back(std::to_string(i));
    all += texts.back();
  }
  for (std::string& text : texts) {
    pieces.push_back({text.data(), text.size()});
  }
  ASSERT_TRUE((*file)->Write(10, pieces).ok());
  ASSERT_TRUE((*file)->Persist().ok());
  EXPECT_EQ((*file)->size_bytes(), 10 + all.size());
  EXPECT_EQ(Get(file->get(), 10, all.size()), all);
  EXPECT_THAT(Get(file->get(), 10, all.size() + 1), HasSubstr("ends at"));
}

TEST_F(DiskDeviceTest, RenameReplacesAndListSorts) {
  auto a = device_->Create("a", 0);
  ASSERT_TRUE(a.ok());
  Put(a->get(), 0, "new");
  auto b = device_->Create("b", 0);
  ASSERT_TRUE(b.ok());
  Put(b->get(), 0, "old");
  ASSERT_TRUE(device_->Rename("a", "b").ok());
  ASSERT_TRUE(device_->Create("c", 0).ok());
  auto names = device_->List("");
  ASSERT_TRUE(names.ok());
  EXPECT_THAT(*names, ElementsAre("b", "c"));
  auto opened = device_->Open("b");
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(Get(opened->get(), 0, 3), "new");
  EXPECT_EQ(device_->Rename("absent", "b").code(), absl::StatusCode::kNotFound);
}

TEST_F(DiskDeviceTest, RenameOfADirectoryMovesAllThatItHolds) {
  ASSERT_TRUE(device_->MakeDirectory("set").ok());
  ASSERT_TRUE(device_->MakeDirectory("set/log").ok());
  auto file = device_->Create("set/log/a", 0);
  ASSERT_TRUE(file.ok());
  Put(file->get(), 0, "kept");
  ASSERT_TRUE(device_->Rename("set", "set.damaged-1").ok());
  const auto names = device_->List("");
  ASSERT_TRUE(names.ok());
  EXPECT_THAT(*names, ElementsAre("set.damaged-1"));
  auto opened = device_->Open("set.damaged-1/log/a");
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(Get(opened->get(), 0, 4), "kept");
}

TEST_F(DiskDeviceTest, RemoveTreeAndAbsent) {
  ASSERT_TRUE(device_->MakeDirectory("set").ok());
  ASSERT_TRUE(device_->MakeDirectory("set/log").ok());
  ASSERT_TRUE(device_->Create("set/log/1", 10).ok());
  EXPECT_TRUE(device_->Remove("set").ok());
  EXPECT_TRUE(device_->Remove("set/log/1").ok());
  EXPECT_EQ(device_->Open("set/log/1").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(device_->List("set").status().code(), absl::StatusCode::kNotFound);
  auto free = device_->FreeBytes();
  ASSERT_TRUE(free.ok());
  EXPECT_GT(*free, 0u);
}

// RLIMIT_FSIZE makes the kernel refuse (EFBIG) in the middle of the file, as a full disk does.
TEST_F(DiskDeviceTest, NoSpaceLeavesNothingBehind) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit limit = {1 << 20, old_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto file = device_->Create("big", 4 << 20);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  EXPECT_EQ(file.status().code(), absl::StatusCode::kResourceExhausted) << file.status();
  EXPECT_EQ(device_->Open("big").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DiskDeviceTest, LockIsExclusiveAndEndsWithItsHolder) {
  auto first = DirectoryLock::Acquire(root_ + "/data");
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = DirectoryLock::Acquire(root_ + "/data");
  ASSERT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("pid " + std::to_string(::getpid())));
  first->reset();
  EXPECT_TRUE(DirectoryLock::Acquire(root_ + "/data").ok());
}

TEST_F(DiskDeviceTest, OpeningAFileOrMissingParentSaysWhy) {
  ASSERT_TRUE(device_->Create("file", 0).ok());
  EXPECT_THAT(std::string(OpenDiskDevice(root_ + "/data/file").status().message()),
              HasSubstr("not a directory"));
  EXPECT_THAT(std::string(OpenDiskDevice(root_ + "/no/such").status().message()),
              HasSubstr("No such file"));
}

// A pre-written file as the log uses one: what was written is there, whatever the sizes, and what
// lies beyond the last block is untouched.
TEST_F(DiskDeviceTest, WritesOfAnySizeGoOnFromOneAnother) {
  constexpr size_t kFileBytes = size_t{2} << 20;
  auto file = device_->Create("x", kFileBytes);
  ASSERT_TRUE(file.ok()) << file.status();
  Put(file->get(), kFileBytes - 10, "untouched!");
  file = device_->Open("x");
  ASSERT_TRUE(file.ok()) << file.status();
  std::string expected(4096, 'h');
  Put(file->get(), 0, expected);
  uint32_t random = 1;
  for (size_t size : {1u, 63u, 4032u, 1u, 4096u, 8191u, 300000u, 262144u, 5u, 524288u, 64u}) {
    std::string text(size, '?');
    for (char& c : text) {
      random = random * 1664525 + 1013904223;
      c = static_cast<char>(random >> 24);
    }
    // In two pieces: they meet anywhere.
    const iovec pieces[2] = {{text.data(), size / 3}, {text.data() + size / 3, size - size / 3}};
    ASSERT_TRUE((*file)->Write(expected.size(), pieces).ok());
    expected += text;
    ASSERT_EQ(Get(file->get(), 0, expected.size()), expected) << size;
  }
  const size_t block_end = (expected.size() + 4095) / 4096 * 4096;
  EXPECT_EQ(Get(file->get(), expected.size(), block_end - expected.size()),
            std::string(block_end - expected.size(), '\0'));
  EXPECT_EQ(Get(file->get(), kFileBytes - 10, 10), "untouched!");
  EXPECT_TRUE((*file)->Persist().ok());
  EXPECT_EQ((*file)->size_bytes(), kFileBytes);
}

TEST_F(DiskDeviceTest, AWriteAnywhereElseIsRightToo) {
  auto file = device_->Create("x", 16384);
  ASSERT_TRUE(file.ok()) << file.status();
  Put(file->get(), 4096, "first");
  Put(file->get(), 4101, "second");
  Put(file->get(), 8192, "block");
  Put(file->get(), 4107, "third");
  Put(file->get(), 9000, "elsewhere");
  EXPECT_EQ(Get(file->get(), 4096, 16), "firstsecondthird");
  EXPECT_EQ(Get(file->get(), 8192, 5), "block");
  EXPECT_EQ(Get(file->get(), 9000, 9), "elsewhere");
  Put(file->get(), 16380, "over the end");
  EXPECT_EQ(Get(file->get(), 16380, 12), "over the end");
}

// A recycled segment: the name changes under the open file.
TEST_F(DiskDeviceTest, AFileIsWrittenUnderItsNewName) {
  auto file = device_->Create("y", 8192);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(device_->Rename("y", "x").ok());
  Put(file->get(), 0, "hello");
  Put(file->get(), 5, " again");
  auto renamed = device_->Open("x");
  ASSERT_TRUE(renamed.ok()) << renamed.status();
  EXPECT_EQ(Get(renamed->get(), 0, 11), "hello again");
}

}  // namespace
}  // namespace kvstored::nvm
