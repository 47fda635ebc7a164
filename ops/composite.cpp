#include "ferrite/ops/composite.h"

#include <string>
#include <string_view>

namespace ferrite::ops {

namespace {

/// "[mul] text" as "[op] text".
template <class E>
[[noreturn]] void throw_as(const E& error, const char* op) {
  std::string_view text = error.what();
  if (text.starts_with('[')) text.remove_prefix(std::min(text.size(), text.find("] ") + 2));
  fail<E>(op, "{}", text);
}

}  // namespace

void rethrow_as(const char* op) {
  try {
    throw;
  } catch (const ShapeError& e) {
    throw_as(e, op);
  } catch (const DTypeError& e) {
    throw_as(e, op);
  } catch (const DeviceError& e) {
    throw_as(e, op);
  } catch (const IndexError& e) {
    throw_as(e, op);
  } catch (const ValueError& e) {
    throw_as(e, op);
  }
}

}  // namespace ferrite::ops
