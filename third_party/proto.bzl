"""Protocol buffers through the system's protoc.

    tandem_proto_library(name = "plan_proto", srcs = ["plan.proto"], deps = [":graph_proto"])

makes the cc_library :plan_proto, `#include "pcg/plan.pb.h"`. A .proto file imports another one of the
project by its path from the root of the workspace (`import "pcg/graph.proto";`), whose target is in deps.
"""

load("//third_party:defs.bzl", "folder_visibility")

def tandem_proto_library(name, srcs, deps = [], visibility = None):
    """Compiles .proto files of this package to a C++ library.

    Args:
      name: the library; `name`_files are its .proto files with those of its deps.
      srcs: .proto files.
      deps: other tandem_proto_library targets, each written with its name (":a" or "//x:a").
      visibility: the folder's group of users by default.
    """
    visibility = visibility if visibility != None else folder_visibility()
    for dep in deps:
        if ":" not in dep:
            fail("%s: write the dependency %s as %s:NAME" % (name, dep, dep))
    native.filegroup(
        name = name + "_files",
        srcs = srcs + [dep + "_files" for dep in deps],
        visibility = visibility,
    )
    stems = [src[:-len(".proto")] for src in srcs]
    native.genrule(
        name = name + "_protoc",
        srcs = srcs + [":" + name + "_files"],
        outs = [stem + ".pb.h" for stem in stems] + [stem + ".pb.cc" for stem in stems],
        cmd = "/usr/bin/protoc -I. -I/usr/include --cpp_out=$(GENDIR) " +
              " ".join(["$(location %s)" % src for src in srcs]),
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = [stem + ".pb.cc" for stem in stems],
        hdrs = [stem + ".pb.h" for stem in stems],
        linkstatic = True,
        copts = ["-w"],
        visibility = visibility,
        deps = deps + ["@protobuf"],
    )
