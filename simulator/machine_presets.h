// The files of simulator/machines, embedded by the build (machine_presets.cc is generated).
#ifndef TANDEM_SIMULATOR_MACHINE_PRESETS_H_
#define TANDEM_SIMULATOR_MACHINE_PRESETS_H_

namespace tandem {

struct MachinePreset {
  const char* name;
  const char* text;
};

extern const MachinePreset kMachinePresets[];
extern const int kMachinePresetCount;

}  // namespace tandem

#endif  // TANDEM_SIMULATOR_MACHINE_PRESETS_H_
