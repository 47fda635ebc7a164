// A link slowed down artificially, to measure the cost of a network on one host.
#pragma once

#include <memory>

#include "ferrite/parallel/comm/links/link.h"

namespace ferrite::parallel::links {

/// Returns `link`, or a wrapper that slows it down by FERRITE_LINK_DELAY_US and FERRITE_LINK_GBPS.
/// Bytes are sent at most at that rate, and become visible to the receiver only after that delay.
/// ValueError if the variables are not numbers.
std::unique_ptr<Link> with_delay(std::unique_ptr<Link> link);

}  // namespace ferrite::parallel::links
