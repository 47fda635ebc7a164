// Values with tensors inside, as modules take and return them: how scatter, gather and broadcast
// find the tensors and put others in their places.
//
// A value is a tensor; an optional, pair, tuple, vector, array, map or unordered_map of values; a
// struct of up to four tensors and nothing else; or a struct that says what it holds:
//
//   struct Batch { Tensor images, labels; std::string source; };
//   template <> struct ferrite::parallel::Fields<Batch> {
//     static auto of(auto& batch) { return std::tie(batch.images, batch.labels, batch.source); }
//   };
//
// Anything else (numbers, strings) holds no tensors and is copied as it is.
#pragma once

namespace ferrite::parallel {

/// What a struct holds, as std::tie makes it; const or not, as the struct is.
template <class T>
struct Fields;

}  // namespace ferrite::parallel
