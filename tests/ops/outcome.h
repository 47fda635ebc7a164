// What came of a call that may be refused.
#pragma once

#include <string>

#include "ferrite/core/error.h"

namespace ferrite::test {

/// What came of a call: "" where it returned, else the error's type and message.
template <class F>
std::string outcome(F&& f) {
  try {
    f();
    return "";
  } catch (const ShapeError& e) {
    return std::string("ShapeError: ") + e.what();
  } catch (const DTypeError& e) {
    return std::string("DTypeError: ") + e.what();
  } catch (const DeviceError& e) {
    return std::string("DeviceError: ") + e.what();
  } catch (const IndexError& e) {
    return std::string("IndexError: ") + e.what();
  } catch (const ValueError& e) {
    return std::string("ValueError: ") + e.what();
  } catch (const AutogradError& e) {
    return std::string("AutogradError: ") + e.what();
  } catch (const CudaError& e) {
    return std::string("CudaError: ") + e.what();
  } catch (const Error& e) {
    return std::string("Error: ") + e.what();
  } catch (const std::exception& e) {
    return std::string("std: ") + e.what();
  }
}

/// Whether `result` is an error of `type` ("": of any of ours) tagged with `op`.
inline bool is_error(const std::string& result, const std::string& type, const std::string& op) {
  const std::size_t colon = result.find(": ");
  if (colon == std::string::npos || result.starts_with("std")) return false;
  const std::string tag = "[" + op + "] ";
  return (type.empty() || result.substr(0, colon) == type) &&
         result.compare(colon + 2, tag.size(), tag) == 0 && result.size() > colon + 2 + tag.size();
}

}  // namespace ferrite::test
