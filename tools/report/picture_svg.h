// A picture as inline SVG. Colours and fonts come from the page's style sheet; widths assume its
// monospaced font.
#ifndef TANDEM_TOOLS_REPORT_PICTURE_SVG_H_
#define TANDEM_TOOLS_REPORT_PICTURE_SVG_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/report/picture.h"

namespace tandem::report {

// `id` is unique in the page; `title` is what a screen reader says.
absl::StatusOr<std::string> PictureSvg(const Picture& picture, const std::string& id,
                                       const std::string& title);

}  // namespace tandem::report

#endif  // TANDEM_TOOLS_REPORT_PICTURE_SVG_H_
