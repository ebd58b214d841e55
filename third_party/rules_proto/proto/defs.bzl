"""The proto rules that are built into Bazel; this project uses //third_party:proto.bzl."""

proto_lang_toolchain = native.proto_lang_toolchain
proto_library = native.proto_library
