#!/usr/bin/env bash
# Small real models with PyTorch's float64 answers, where the folder ../shared/numeric beside the checkout has
# them: serial and planned for 4 ranks, outputs within 1e-5 and the losses of five SGD steps within 1e-5 relative.
set -uo pipefail
tandem=$PWD/$1
cases=$(dirname "$(dirname "$(realpath "${BASH_SOURCE[0]}")")")/../shared/numeric
if [[ ! -d $cases ]]; then
  echo "skipped: no folder ../shared/numeric beside the checkout"
  exit 0
fi
cd "$TEST_TMPDIR"
failures=0
for folder in "$cases"/*/; do
  name=$(basename "$folder")
  read -r lr batch < <(python3 - "$folder" <<'PY'
import json, sys
folder = sys.argv[1]
training = json.load(open(folder + "/training.json"))
# dims of the first input: field 1 of TensorProto, varints.
data = open(folder + "/test_data_set_0/input_0.pb", "rb").read()
batch = data[1] if data[0] == 0x08 else data[2]
print(training["lr"], batch)
PY
)
  freeze=$(python3 -c 'import json,sys; print(" ".join(json.load(open(sys.argv[1])).get("frozen", [])))' "$folder/training.json")
  arguments=()
  for tensor in $freeze; do arguments+=(--freeze "$tensor"); done
  for ranks in 1 4; do
    rm -rf plan
    if ! "$tandem" optimize "$folder/model.onnx" --machine cpu --devices $ranks --optimizer sgd --lr "$lr" \
      --precision fp64 --global-batch "$batch" --no-baselines --quiet "${arguments[@]}" --out plan > log 2>&1; then
      echo "FAILED: $name, $ranks ranks: $(tail -1 log)"
      failures=$((failures + 1))
      continue
    fi
    "$tandem" run plan --ranks $ranks --steps 5 --dtype fp64 --data "$folder/test_data_set_0" --json > run.json 2> log ||
      echo "FAILED to run: $(tail -1 log)"
    python3 - "$folder/training.json" run.json "$name, $ranks ranks" <<'PY' || failures=$((failures + 1))
import json, sys
want = json.load(open(sys.argv[1]))["losses"]
try:
    got = json.load(open(sys.argv[2]))
except ValueError:
    sys.exit("FAILED: " + sys.argv[3] + ": no result")
worst = max(abs(a - b) / abs(b) for a, b in zip(got["losses"], want))
outputs = got["outputs_max_abs_difference"]
ok = len(got["losses"]) == len(want) and worst <= 1e-5 and outputs <= 1e-5
print("%s: losses within %.1e, outputs within %.1e%s" % (sys.argv[3], worst, outputs, "" if ok else "  FAILED"))
sys.exit(0 if ok else 1)
PY
  done
done
[[ $failures -eq 0 ]] || { echo "$failures failed"; exit 1; }
