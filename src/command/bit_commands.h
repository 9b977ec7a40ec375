// Commands on the bits of strings: GETBIT SETBIT BITCOUNT BITPOS (bit_commands.cc), BITFIELD
// BITFIELD_RO (bitfield.cc), BITOP (bitop.cc).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "command/command.h"

namespace kvstored::command {

inline constexpr std::string_view kErrBitOffset =
    "ERR bit offset is not an integer or out of range";

OpResult HandleGetBit(ShardCall& call);
OpResult HandleSetBit(ShardCall& call);
OpResult HandleBitCount(ShardCall& call);
OpResult HandleBitPos(ShardCall& call);
OpResult HandleBitField(ShardCall& call);  // and BITFIELD_RO

// The offset of a bit that a value may have, else false. `unit_bits` is not 0: "#N" is the N-th
// unit of so many bits.
[[nodiscard]] bool ParseBitOffset(std::string_view text, uint64_t unit_bits, uint64_t* offset);

// How long SETBIT and BITFIELD make an absent value at most; 0 where they write nothing or fail.
uint64_t SetBitBytes(std::span<const std::string_view> args);
uint64_t BitFieldBytes(std::span<const std::string_view> args);

// Does BITFIELD with these words read only? Where Redis stops to understand them it may write.
bool BitFieldOnlyReads(std::span<const std::string_view> args);

std::span<const CommandSpec> BitOpCommands();

}  // namespace kvstored::command
