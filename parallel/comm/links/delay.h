// A link that is slower than it need be: what shows, on one host, what a network would cost.
#pragma once

#include <memory>

#include "ferrite/parallel/comm/links/link.h"

namespace ferrite::parallel::links {

/// `link`, or what slows it down by FERRITE_LINK_DELAY_US and FERRITE_LINK_GBPS. Bytes are sent no
/// faster than that, and can be received so much later than a receiver that looks, or waits, finds
/// them. ValueError where these are no numbers.
std::unique_ptr<Link> with_delay(std::unique_ptr<Link> link);

}  // namespace ferrite::parallel::links
