#!/usr/bin/env bash
# The command line end to end: the journeys, the keys that scripts rely on, and exit codes for bad input.
set -uo pipefail
tandem=$PWD/$1
cd "$TEST_TMPDIR"
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

# expect CODE TEXT COMMAND...: exit code, and a text that the output must contain.
expect() {
  local code=$1 text=$2
  shift 2
  local out status
  out=$("$tandem" "$@" 2>&1)
  status=$?
  [[ $status -eq $code ]] || fail "tandem $*: exit code $status, expected $code: $out"
  [[ $out == *"$text"* ]] || fail "tandem $*: no '$text' in: $out"
}
# keys COMMAND... -- KEY...: JSON on stdout has these keys.
keys() {
  local command=()
  while [[ $1 != -- ]]; do command+=("$1"); shift; done
  shift
  "$tandem" "${command[@]}" --json 2>/dev/null | python3 -c '
import json, sys
data = json.load(sys.stdin)
missing = [k for k in sys.argv[1:] if k not in data]
sys.exit("missing " + ", ".join(missing) if missing else 0)' "$@" || fail "keys of tandem ${command[*]}"
}

# The journeys.
expect 0 "Tandem" optimize mlp-tiny --machine cpu --devices 4 --out plan
expect 0 "proved" verify plan
expect 0 "proved: " optimize mlp-tiny --machine cpu --devices 2 --quiet
expect 0 "equal to the serial model" run plan --ranks 4 --steps 3 --check
expect 0 "step" simulate plan
expect 0 "strategy" explain plan
expect 0 "H100" machine show dgx-h100
expect 0 "summit-v100" machine list
expect 0 "resnet50" models list
expect 0 "parameters" models show mlp-tiny
expect 0 "attention_masked" rules list
expect 0 "0 unknown" rules verify
expect 0 "as the stored certificate says" rules show attention_masked
expect 0 "rules and" rules certify --out certificates
sed 's/name: "scale_twice"/name: "scale_once"/' certificates > changed
expect 2 "changed after the proofs" rules certify --check changed
for file in plan.pb summary.json report.html trace.json certificates.textproto; do [[ -s plan/$file ]] || fail "plan/$file is missing"; done

# Names that scripts rely on.
keys models show mlp-tiny -- nodes parameters trainable_parameters parameter_bytes forward_flops inputs outputs unsupported
keys optimize mlp-tiny --machine dgx-a100 --devices 2 --out gpu -- devices step_seconds mfu peak_bytes search_seconds \
  search_steps objective_seconds objective_bound_seconds gap baselines strategy rules verification
keys explain plan -- rules verification certificates
python3 -c '
import json
plan = json.load(open("gpu/summary.json"))
parts = plan["breakdown"]
assert abs(sum(parts.values()) - plan["step_seconds"]) < 1e-9 * plan["step_seconds"], parts' || fail "the parts of the step do not sum to it"
grep -q '"verdict": "proved"' plan/summary.json || fail "summary.json does not say that the plan is proved"
cat > silu.textproto <<'MODEL'
name: "silu"
batch: 8
tensor { name: "x" shape: [8, 16] role: INPUT }
tensor { name: "w" shape: [16, 8] role: PARAMETER }
node { name: "m" op: "matmul" input: ["x", "w"] }
node { name: "s" op: "sigmoid" input: "m" }
node { name: "y" op: "mul" input: ["s", "m"] }
output: "y"
MODEL
expect 0 "proved" optimize silu.textproto --machine cpu --devices 4 --strategy data --out silu
expect 0 "silu_spelt_out" explain silu
expect 0 "questions to Z3" explain silu
for kind in RULE ROW CUT; do
  grep -q "kind: $kind" silu/certificates.textproto || fail "no certificate of a $kind in the plan"
done
sed -i 's/kind: ROW/kind: RULE/' silu/certificates.textproto
expect 2 "certificates.textproto" explain silu
expect 0 "Tandem" optimize mlp-tiny --machine cpu --devices 2 --no-verify --out unverified
expect 0 "not verified" explain unverified
keys verify plan -- verdict obligations seconds failures
keys run plan --steps 1 --check -- ranks steps losses max_abs_difference_from_serial step_seconds peak_bytes
keys simulate plan -- step_seconds peak_bytes breakdown
keys rules verify -- proved refuted unknown seconds rules

# What is said of the plans: the fastest is as fast as itself, and one of a thing is no several.
"$tandem" optimize mlp-tiny --machine dgx-a100 --devices 2 --micro-batches 1 --quiet > table
grep -q "^Tandem .* mesh 2, 1 micro-batch\$" table || fail "the plan's line: $(cat table)"
grep -q " as fast; mesh 2, 1 micro-batch\$" table || fail "no baseline as fast: $(cat table)"
expect 0 "2 ranks, 1 step, fp64" run gpu --steps 1 --dtype fp64
"$tandem" optimize mlp-tiny --machine dgx-a100 --devices 2 --strategy tensor --quiet > slow
grep -q "x faster; mesh 2," slow || fail "no baseline faster than a forced plan: $(cat slow)"

# Twice the same plan, byte for byte.
expect 0 "Tandem" optimize mlp-tiny --machine dgx-a100 --devices 2 --out again
cmp -s gpu/certificates.textproto again/certificates.textproto || fail "other certificates"
cmp -s gpu/summary.json again/summary.json || fail "another summary"
cmp -s gpu/plan.pb again/plan.pb || fail "the same command gave another plan"

# A user's operator, known to nothing built in, goes through everything.
cat > my.ops <<'OPS'
operator my_act(x[d..]) -> out[d..] { out[i] = x[i] / (1 + exp(-x[i])) + 0.1 * x[i] * x[i] }
OPS
expect 0 "my_act" operators check my.ops
expect 0 "" models emit mlp-tiny --out plain.textproto
sed 's/"relu"/"my_act"/' plain.textproto > mine.textproto
expect 2 "my_act" optimize mine.textproto --machine cpu --devices 2
expect 0 "Tandem" optimize mine.textproto --operators my.ops --machine cpu --devices 4 --strategy mixed --out mine
expect 0 "proved" verify mine
expect 0 "step" simulate mine
expect 0 "equal to the serial model" run mine --ranks 4 --steps 2 --check

# An ONNX file with a vector read twice, positions, and symbolic dims.
python3 - <<'PY'
import struct
def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])
def field(k, value):
    if isinstance(value, int):
        return varint(k << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(k << 3 | 2) + varint(len(data)) + data
def port(name, *dims):
    shape = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))
def vector(name, *values):
    return field(1, len(values)) + field(2, 1) + field(8, name) + field(9, struct.pack("<%df" % len(values), *values))
def node(op, inputs, output):
    return b"".join(field(1, i) for i in inputs) + field(2, output) + field(3, output) + field(4, op)
graph = (field(1, node("Mul", ["x", "gamma.weight"], "a")) + field(1, node("Mul", ["a", "gamma.weight"], "b"))
         + field(1, node("Add", ["b", "places"], "y")) + field(2, "vectors")
         + field(5, vector("gamma.weight", 0.5, 0.25, 0.75, 0.125)) + field(5, vector("places", 0, 1, 2, 3))
         + field(11, port("x", "batch", "seq", 4)) + field(12, port("y", "batch", "seq", 4)))
open("vectors.onnx", "wb").write(field(1, 8) + field(7, graph) + field(8, field(2, 17)))
PY
expect 0 "8 parameters" models show vectors.onnx
expect 0 "dim 'seq' taken for 128" models show vectors.onnx
expect 0 "4 parameters" models show vectors.onnx --tie gamma
expect 0 "8 parameters" models show vectors.onnx --tie gamma --untie gamma
expect 2 "--tie" models show vectors.onnx --tie "("
expect 2 "--dim seq=128" optimize vectors.onnx --machine cpu --devices 1
vectors=(optimize vectors.onnx --machine cpu --devices 1 --dim seq=3 --global-batch 2)
expect 0 "Tandem" "${vectors[@]}" --tie gamma --freeze places
expect 0 "Tandem" "${vectors[@]}" --train places
expect 2 "matches no parameter" "${vectors[@]}" --freeze nonesuch

# An initializer is read with the model, not when a run needs it.
sed 's/name: "w" shape: \[16, 8\] role: PARAMETER/& initializer: "normal(zero)"/' silu.textproto > zero.textproto
for command in "models show zero.textproto" "optimize zero.textproto --machine cpu --devices 1"; do
  expect 2 "tensor 'w': initializer 'normal(zero)' is not constant(value)," $command
done

# Bad input: located messages, exit code 2; "no": exit code 1.
expect 2 "nonesuch.onnx" optimize nonesuch.onnx --machine cpu
expect 2 "dgx-a100" optimize mlp-tiny --machine nonesuch
expect 2 "" optimize mlp-tiny
expect 2 "devices" optimize mlp-tiny --machine dgx-a100 --devices 11
head -c 3000 /dev/urandom > noise.onnx
expect 2 "noise.onnx" models show noise.onnx
: > empty.onnx
expect 2 "empty.onnx" models show empty.onnx
echo 'operator broken(x[n]) -> y[n] { y[i] = x[i' > broken.ops
expect 2 "broken.ops:" operators check broken.ops
echo 'rule bad { given x[n] source { y = relu(x) } target { y = tanh(x) } }' > bad.rules
expect 1 "refuted" rules verify bad.rules
echo 'rule odd { given x[n] source { y = nosuch(x) } target { y = tanh(x) } }' > odd.rules
expect 2 "nosuch" rules verify odd.rules
expect 0 "Tandem" optimize --freeze layers.0 --freeze layers.2 mlp-tiny --machine cpu --devices 2 --no-baselines --out frozen
expect 1 "short by" optimize mlp-tiny --machine cpu --devices 2 --memory-limit 1KiB
expect 2 "4" run plan --ranks 3
expect 2 "nowhere" verify nowhere
head -c 200 plan/plan.pb > plan/cut && mkdir -p cut && cp plan/cut cut/plan.pb
expect 2 "plan.pb" verify cut
expect 2 "" run plan --steps 0
expect 2 "nearest" optimize mlp-tiny --machine cpu --devices 5 --strategy data

# Numbers that cannot be are refused by name, not taken for "not given".
for option in --devices --nodes --global-batch --micro-batches --mesh; do
  for value in 0 -1 1.5 "" 99999999999999999999; do
    expect 2 "is not a whole number of at least 1" optimize mlp-tiny --machine dgx-a100 $option "$value"
  done
done
for value in nan inf 0 -1 ""; do
  expect 2 "is not a finite number above 0" optimize mlp-tiny --machine cpu --lr "$value"
  expect 2 "is not a finite number above 0" run plan --lr "$value"
  expect 2 "is not a finite number above 0" run plan --timeout "$value"
done
expect 2 "extents multiply to 3 devices, cpu has 4" optimize mlp-tiny --machine cpu --devices 4 --mesh 3
expect 2 "at most 4" optimize mlp-tiny --machine cpu --devices 4 --mesh 2 2 1 1 1
expect 2 "--outputs drop: serving computes nothing but" optimize mlp-tiny --machine cpu --mode serve --outputs drop
expect 2 "--outputs drop: --loss none computes nothing but" optimize mlp-tiny --machine cpu --loss none --outputs drop
expect 1 "short by" optimize mlp-tiny --machine cpu --loss none --memory-limit 1KiB
expect 2 "--out: it is empty" optimize mlp-tiny --machine cpu --out ""
expect 2 "--data: it is empty" run plan --data ""
expect 2 "is 2 already" models show mlp-tiny --dim n=2 --dim n=3
expect 2 "no command 'optimise'; there are optimize," optimise model.onnx
expect 2 "no command is given; there are optimize,"
for value in -1 1.5 "" 99999999999999999999; do
  expect 2 "--seed: '$value' is not a whole number of at least 0" run nowhere --seed "$value"
done
expect 2 "export --to perfetto" export plan --to dot --machine dgx-h100
expect 0 "digraph" export plan --to dot
expect 2 "end it in .pb" models emit mlp-tiny --out plain.foo
[[ ! -e plain.foo ]] || fail "plain.foo was written"
expect 0 "" models emit mlp-tiny --out plain.txtpb
cmp -s plain.txtpb plain.textproto || fail ".txtpb is another text"

# A command of several is asked for with those there are.
while read -r command subcommands; do
  expect 2 "no subcommand of $command is given; there are $subcommands (" "$command"
  expect 2 "no subcommand of $command 'nonesuch'; there are $subcommands (" "$command" nonesuch
  for subcommand in ${subcommands//,/}; do expect 0 "  $subcommand " "$command" --help; done
done <<'COMMANDS'
rules verify, list, certify, show
operators check, list
machine list, show
models list, show, emit
COMMANDS

# The default precision is the first that the machine has units for, whatever its name.
precision() {  # precision EXPECTED MACHINE
  local said
  said=$("$tandem" optimize mlp-tiny --machine "$2" --devices 1 --json --no-verify --no-baselines --quiet |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["precision"])')
  [[ $said == "$1" ]] || fail "precision on $2: $said, expected $1"
}
"$tandem" machine show cpu | sed 's/^name: "cpu"/name: "workstation"/' > workstation.textproto
"$tandem" machine show dgx-a100 | sed 's/^name: "dgx-a100"/name: "cpu"/' > gpu_named_cpu.textproto
grep -q '"workstation"' workstation.textproto && grep -q '"cpu"' gpu_named_cpu.textproto || fail "not renamed"
precision fp32 cpu
precision fp32 workstation.textproto
precision bf16 dgx-a100
precision bf16 gpu_named_cpu.textproto
precision fp16 summit-v100
expect 1 "the limit is 1.00 KiB" optimize mlp-tiny --machine cpu --devices 2 --memory-limit 1KiB
expect 2 "not a regular file" rules verify /tmp
expect 2 "not a regular file" operators check /dev/zero
expect 2 "not a regular file" optimize mlp-tiny --machine cpu --operators /tmp
expect 2 "neither a preset" machine show /dev/zero

# A folder that cannot be made is said before the search, a full disk after it.
: > afile
expect 2 "afile" optimize mlp-tiny --machine cpu --devices 2 --out afile
if [[ -c /dev/full ]]; then
  for command in "models list --json" "verify plan --json" "explain plan" "machine show cpu" "export plan --to dot" "--help"; do
    "$tandem" $command > /dev/full 2> stderr && fail "tandem $command > /dev/full succeeded"
    [[ $(cat stderr) == *"standard output cannot be written"* ]] || fail "tandem $command > /dev/full: $(cat stderr)"
  done
fi

# Names that are no text stay JSON, and cannot break out of the report.
python3 - plain.textproto <<'PY'
import sys
text = open(sys.argv[1], "rb").read()
open("odd.textproto", "wb").write(text.replace(b'"layers.0"', rb'"</script><script>alert(1)</script>\377"'))
PY
expect 0 "Tandem" optimize odd.textproto --machine cpu --devices 2 --out odd
expect 2 "nonesuch" explain odd --nonesuch
grep -q "<script>alert" odd/report.html && fail "a node's name is markup in the report"
python3 -c '
import json
json.load(open("odd/trace.json", encoding="utf-8"))
json.load(open("odd/summary.json", encoding="utf-8"))
open("odd/report.html", encoding="utf-8").read()' || fail "bytes that are no UTF-8 in a plan folder"

# Ctrl-C gives the best plan so far, or says that there is none yet; never an empty reason.
timeout -s INT 0.3 "$tandem" optimize bert-large --machine dgx-a100 --nodes 4 --out stopped > stdout 2> stderr
status=$?
[[ $status -eq 0 || $status -eq 1 || $status -eq 124 || $status -eq 130 ]] || fail "interrupted: $status $(tail -1 stderr)"

# Damaged plans: bad input or "no", never a crash, a hang or an internal error.
python3 - <<'PY'
import os, random
source = open("plan/plan.pb", "rb").read()
rng = random.Random(3)
for k in range(24):
    data = bytearray(source)
    for _ in range(1 + k % 3):
        at = rng.randrange(len(data))
        data[at] = (data[at] + rng.choice([1, 255, 128, rng.randrange(256)])) % 256
    os.makedirs(f"damaged/{k}", exist_ok=True)
    open(f"damaged/{k}/plan.pb", "wb").write(data if k % 4 else data[: rng.randrange(len(data))])
PY
for folder in damaged/*; do
  for command in "verify" "run --steps 1 --timeout 5" "simulate" "explain" "export --to dot"; do
    set -- $command
    timeout 30 "$tandem" "$1" "$folder" "${@:2}" > stdout 2> stderr
    status=$?
    [[ $status -le 2 ]] || fail "tandem $command of $folder: exit code $status: $(tail -1 stderr)"
  done
done

for command in optimize explain verify run simulate rules operators machine models export; do
  expect 0 "" "$command" --help
done
[[ $failures -eq 0 ]] || { echo "$failures failed"; exit 1; }
