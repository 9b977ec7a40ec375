// An ordinary hiredis program: prints "ok" if everything came back as it must.
#include <hiredis/hiredis.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

namespace {

constexpr int kDepth = 100'000;

void Must(bool holds, const char* what) {
  if (!holds) {
    std::printf("failed: %s\n", what);
    std::exit(1);
  }
}

struct FreeReply {
  void operator()(redisReply* reply) const {
    freeReplyObject(reply);
  }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

Reply Next(redisContext* context) {
  void* reply = nullptr;
  Must(redisGetReply(context, &reply) == REDIS_OK && reply != nullptr, context->errstr);
  return Reply(static_cast<redisReply*>(reply));
}

void Deep(redisContext* context) {
  // All requests are written before the first reply is read.
  for (int i = 0; i < kDepth; ++i) {
    Must(redisAppendCommand(context, "INCR hiredis:counter") == REDIS_OK, "append");
  }
  for (int i = 0; i < kDepth; ++i) {
    const Reply reply = Next(context);
    Must(reply->type == REDIS_REPLY_INTEGER && reply->integer == i + 1, "INCR");
  }
}

void Binary(redisContext* context) {
  const std::string key("bin\0ary", 7);
  std::string value(3 << 20, '\0');
  for (size_t i = 0; i < value.size(); ++i) {
    value[i] = static_cast<char>(i * 7);
  }
  Must(redisAppendCommand(context, "SET %b %b", key.data(), key.size(), value.data(),
                          value.size()) == REDIS_OK,
       "append SET");
  Must(std::strcmp(Next(context)->str, "OK") == 0, "SET");
  Must(redisAppendCommand(context, "GET %b", key.data(), key.size()) == REDIS_OK, "append GET");
  const Reply reply = Next(context);
  Must(std::string(reply->str, reply->len) == value, "GET");
}

void Transaction(redisContext* context) {
  for (const char* command :
       {"GET none", "MULTI", "SET hiredis:a 1", "MGET hiredis:a none", "EXEC"}) {
    Must(redisAppendCommand(context, command) == REDIS_OK, command);
  }
  Must(Next(context)->type == REDIS_REPLY_NIL, "GET none");
  for (int i = 0; i < 3; ++i) {
    Must(Next(context)->type == REDIS_REPLY_STATUS, "MULTI");
  }
  const Reply exec = Next(context);
  Must(exec->type == REDIS_REPLY_ARRAY && exec->elements == 2 &&
           exec->element[1]->element[1]->type == REDIS_REPLY_NIL,
       "EXEC");
}

}  // namespace

int main(int argc, char** argv) {
  Must(argc == 3, "usage: hiredis_client PORT PASSWORD");
  redisContext* context = redisConnect("127.0.0.1", std::atoi(argv[1]));
  Must(context != nullptr && context->err == 0, "connect");
  if (argv[2][0] != '\0') {
    Must(redisAppendCommand(context, "AUTH %s", argv[2]) == REDIS_OK, "append AUTH");
    Must(Next(context)->type == REDIS_REPLY_STATUS, "AUTH");
  }
  Deep(context);
  Binary(context);
  Transaction(context);
  redisFree(context);
  std::printf("ok\n");
  return 0;
}
