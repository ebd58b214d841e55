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
expect 0 "equal to the serial model" run plan --ranks 4 --steps 3 --check
expect 0 "step" simulate plan
expect 0 "strategy" explain plan
expect 0 "H100" machine show dgx-h100
expect 0 "summit-v100" machine list
expect 0 "resnet50" models list
expect 0 "parameters" models show mlp-tiny
expect 0 "attention_masked" rules list
expect 0 "0 unknown" rules verify
for file in plan.pb summary.json report.html trace.json; do [[ -s plan/$file ]] || fail "plan/$file is missing"; done

# Names that scripts rely on.
keys models show mlp-tiny -- nodes parameters trainable_parameters parameter_bytes forward_flops inputs outputs unsupported
keys optimize mlp-tiny --machine dgx-a100 --devices 2 --out gpu -- devices step_seconds mfu peak_bytes search_seconds \
  search_steps objective_seconds objective_bound_seconds gap baselines strategy rules
keys verify plan -- verdict obligations seconds failures
keys run plan --steps 1 --check -- ranks steps losses max_abs_difference_from_serial step_seconds peak_bytes
keys simulate plan -- step_seconds peak_bytes breakdown
keys rules verify -- proved refuted unknown seconds rules

# Twice the same plan, byte for byte.
expect 0 "Tandem" optimize mlp-tiny --machine dgx-a100 --devices 2 --out again
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
expect 1 "short by" optimize mlp-tiny --machine cpu --devices 2 --memory-limit 1KiB
expect 2 "4" run plan --ranks 3
expect 2 "nowhere" verify nowhere
head -c 200 plan/plan.pb > plan/cut && mkdir -p cut && cp plan/cut cut/plan.pb
expect 2 "plan.pb" verify cut
expect 2 "" run plan --steps 0
expect 2 "nearest" optimize mlp-tiny --machine cpu --devices 5 --strategy data
for command in optimize explain verify run simulate rules operators machine models export; do
  expect 0 "" "$command" --help
done
[[ $failures -eq 0 ]] || { echo "$failures failed"; exit 1; }
