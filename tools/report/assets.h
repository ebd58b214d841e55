// The page's style sheet and scripts, embedded by the build (assets.cc is generated).
#ifndef TANDEM_TOOLS_REPORT_ASSETS_H_
#define TANDEM_TOOLS_REPORT_ASSETS_H_

namespace tandem::report {

extern const char kReportCss[];
extern const char kPageJs[];
extern const char kTimelineJs[];

}  // namespace tandem::report

#endif  // TANDEM_TOOLS_REPORT_ASSETS_H_
