"""Every external repository of Tandem, in one place. Nothing is downloaded.

A system library is a Debian package: its headers are in the compiler's own include path and its shared
objects in the linker's, so its repository holds a BUILD file with link flags and a check that the package
is there. `tools/setup` installs what `_SYSTEM_LIBRARIES` names.
"""

load("//third_party/cuda:configure.bzl", "cuda_configure")

# Rules that Bazel's own packages load by these names.
_STUBS = [
    "remote_coverage_tools",
    "rules_cc",
    "rules_java",
    "rules_proto",
]

# repository: (Debian package, a header that must exist)
_SYSTEM_LIBRARIES = {
    "absl": ("libabsl-dev", "/usr/include/absl/status/statusor.h"),
    "catch2": ("catch2", "/usr/include/catch2/catch.hpp"),
    "cli11": ("libcli11-dev", "/usr/include/CLI/CLI.hpp"),
    "graphviz": ("libgraphviz-dev", "/usr/include/graphviz/gvc.h"),
    "nlohmann_json": ("nlohmann-json3-dev", "/usr/include/nlohmann/json.hpp"),
    "onednn": ("libdnnl-dev", "/usr/include/dnnl.hpp"),
    "onnx": ("libonnx-dev", "/usr/include/onnx/onnx.proto"),
    "openblas": ("libopenblas-dev", "/usr/include/x86_64-linux-gnu/openblas-pthread/cblas.h"),
    "protobuf": ("libprotobuf-dev", "/usr/include/google/protobuf/message.h"),
    "z3": ("libz3-dev", "/usr/include/z3++.h"),
}

def _system_library_impl(ctx):
    if not ctx.path(ctx.attr.header).exists:
        fail("%s is missing: install %s, or run tools/setup" % (ctx.attr.header, ctx.attr.package))
    ctx.symlink(ctx.attr.build_file, "BUILD")
    ctx.file("WORKSPACE", "workspace(name = %r)\n" % ctx.name)

system_library = repository_rule(
    implementation = _system_library_impl,
    local = True,
    attrs = {
        "build_file": attr.label(mandatory = True),
        "header": attr.string(mandatory = True),
        "package": attr.string(mandatory = True),
    },
)

def tandem_repositories():
    """Declares the stubs, the system libraries and @cuda."""
    for name in _STUBS:
        native.local_repository(name = name, path = "third_party/" + name)
    for name, (package, header) in _SYSTEM_LIBRARIES.items():
        system_library(
            name = name,
            build_file = "//third_party/system:%s.BUILD" % name,
            header = header,
            package = package,
        )
    cuda_configure(name = "cuda")
