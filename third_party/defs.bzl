"""The C++ rules of this project: one place for warnings, defaults and visibility.

A library is seen by the packages that the group of its top-level folder names (//:pcg_users for
//pcg/..., and so on), unless its BUILD file says otherwise.
"""

# Our own code only: system headers and generated code are compiled without.
TANDEM_COPTS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    # Known false positives of g++ 12 on std::string and std::vector at -O2.
    "-Wno-restrict",
    "-Wno-error=maybe-uninitialized",
    "-Wno-error=array-bounds",
    "-Wno-error=stringop-overflow",
    "-Wno-error=stringop-overread",
    "-Wno-error=free-nonheap-object",
]

def folder_visibility():
    """The package group that may see this folder, by the arrows of the root BUILD file."""
    folder = native.package_name().split("/")[0]
    return ["//:%s_users" % folder] if folder else ["//visibility:public"]

def tandem_cc_library(name, copts = [], visibility = None, **kwargs):
    """One header/source pair.

    Args:
      name: the pair's name without its suffix.
      copts: flags beside the project's warnings.
      visibility: the folder's group of users by default.
      **kwargs: srcs, hdrs, deps and the like, as for cc_library.
    """
    native.cc_library(
        name = name,
        copts = TANDEM_COPTS + copts,
        visibility = visibility if visibility != None else folder_visibility(),
        # No shared object for a library that is named as a target (by //...): nothing links it.
        linkstatic = True,
        **kwargs
    )

def tandem_cc_test(name, srcs, deps = [], copts = [], size = "small", **kwargs):
    """A Catch2 test binary; `#include <catch2/catch.hpp>` in each source, main() comes with it.

    Args:
      name: ends in _test.
      srcs: any number of x_test.cc: few binaries with several files build faster than many.
      deps: libraries beside Catch2.
      copts: flags beside the project's warnings.
      size: small (60 s), medium (300 s), large.
      **kwargs: data, args, tags and the like, as for cc_test.
    """
    native.cc_test(
        name = name,
        srcs = srcs,
        copts = TANDEM_COPTS + copts,
        size = size,
        deps = deps + ["//third_party/catch2:main"],
        **kwargs
    )

def tandem_cc_binary(name, copts = [], **kwargs):
    """A program.

    Args:
      name: the program's name.
      copts: flags beside the project's warnings.
      **kwargs: srcs, deps and the like, as for cc_binary.
    """
    native.cc_binary(
        name = name,
        copts = TANDEM_COPTS + copts,
        **kwargs
    )
