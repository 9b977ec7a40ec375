// Who else may read a secret, and what is read of it.
#include "server/secret_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

namespace kvstored::server {
namespace {

using ::testing::HasSubstr;

std::string Written(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(SharedAccess, OnlyTheOwnerMayReadASecret) {
  for (const mode_t good : {0600u, 0400u, 0700u, 0100600u}) {
    EXPECT_EQ(SharedAccessText("a.key", "/etc/secret", good), "") << std::oct << good;
  }
  for (const mode_t bad : {0640u, 0604u, 0620u, 0602u, 0644u}) {
    EXPECT_NE(SharedAccessText("a.key", "/etc/secret", bad), "") << std::oct << bad;
  }
  // As fstat tells it, with the type of the file.
  EXPECT_EQ(SharedAccessText("replication.secret_file", "/etc/secret", S_IFREG | 0644),
            "replication.secret_file /etc/secret: mode 0644 lets group or others at the secret: "
            "chmod 600 /etc/secret");
}

absl::StatusOr<std::string> Secret(const std::string& file) {
  return ReadSecretFile("replication.secret_file", file, kSharedSecretBytesMin);
}
absl::StatusOr<std::string> Password(const std::string& file) {
  return ReadSecretFile("security.password_file", file, kPasswordBytesMin);
}

TEST(SecretFiles, AreReadWithoutTheLinesEnd) {
  EXPECT_EQ(Secret("").value(), "");
  EXPECT_EQ(Secret(Written("secret", "0123456789abcdef\r\n")).value(), "0123456789abcdef");
  EXPECT_EQ(Password(Written("password", "open sesame\n")).value(), "open sesame");
  EXPECT_EQ(Password(Written("crlf", "open sesame\r\n")).value(), "open sesame");
  const std::string longest(kSecretBytesMax, 'x');
  EXPECT_EQ(Password(Written("longest", longest + "\r\n")).value(), longest);
  EXPECT_THAT(std::string(Password(Written("longer", longest + "x")).status().message()),
              HasSubstr("holds more than 4096 bytes"));
  EXPECT_THAT(std::string(Secret(Written("short", "0123456789\n")).status().message()),
              HasSubstr("holds 10 bytes; at least 16"));
  EXPECT_THAT(std::string(Password(Written("empty", "\n")).status().message()),
              HasSubstr("holds 0 bytes; at least 1"));
  EXPECT_THAT(std::string(Secret("/nowhere/secret").status().message()),
              HasSubstr("replication.secret_file /nowhere/secret"));
  EXPECT_THAT(std::string(Password("/nowhere/password").status().message()),
              HasSubstr("security.password_file /nowhere/password"));
}

}  // namespace
}  // namespace kvstored::server
