"""@cuda: the CUDA toolkit of this machine, or a stub that loads without one.

The toolkit is looked for in $CUDA_HOME, then where nvcc on PATH is, then in /usr/local/cuda. Only host code is
compiled against it (g++, headers, shared objects); kernels are text that NVRTC compiles when they are needed.
"""

# Target: shared objects. cuBLASLt is what the executor calls; cuBLAS comes along for its handle types.
_LIBRARIES = {
    "cublas": ["cublasLt", "cublas"],
    "cudart": ["cudart"],
    "cudnn": ["cudnn"],
    "nccl": ["nccl"],
    "nvrtc": ["nvrtc"],
}

_FOUND = """package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob(
        [
            "include/*.h",
            "include/*.hpp",
            "include/crt/**",
            "include/cccl/nv/**",
            "include/nv/**",
        ],
        allow_empty = True,
    ),
    includes = ["include", "include/cccl"],
)
"""

_FOUND_LIBRARY = """
cc_library(
    name = "%s",
    linkopts = ["-L%s", "-Wl,-rpath,%s", %s],
    deps = [":headers"],
)
"""

_MISSING = """package(default_visibility = ["//visibility:public"])

genrule(
    name = "missing",
    outs = ["cuda_toolkit_missing.h"],
    cmd = "echo 'no CUDA toolkit in CUDA_HOME, on PATH or in /usr/local/cuda: install one, or build without --config=cuda' >&2; exit 1",
)
"""

_MISSING_LIBRARY = """
cc_library(
    name = "%s",
    hdrs = [":missing"],
)
"""

def _toolkit(ctx):
    candidates = []
    if ctx.os.environ.get("CUDA_HOME", ""):
        candidates.append(ctx.path(ctx.os.environ["CUDA_HOME"]))
    nvcc = ctx.which("nvcc")
    if nvcc:
        candidates.append(nvcc.realpath.dirname.dirname)
    candidates.append(ctx.path("/usr/local/cuda"))
    for root in candidates:
        if root.get_child("include").get_child("cuda_runtime.h").exists:
            return root
    return None

def _cuda_configure_impl(ctx):
    root = _toolkit(ctx)
    if root == None:
        text = _MISSING
        for name in _LIBRARIES:
            text += _MISSING_LIBRARY % name
    else:
        ctx.symlink(root.get_child("include"), "include")
        lib = root.get_child("lib64")
        if not lib.exists:
            lib = root.get_child("lib")
        text = _FOUND
        for name, objects in _LIBRARIES.items():
            flags = ", ".join(['"-l%s"' % o for o in objects])
            text += _FOUND_LIBRARY % (name, lib, lib, flags)
    ctx.file("BUILD", text)

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    configure = True,
    environ = ["CUDA_HOME", "PATH"],
    local = True,
)
