package speedmatrix

// MachineRow is one sample of the machine or of one GPU, as it stands in machine.parquet. A value
// that the system did not give is null, never zero.
type MachineRow struct {
	// TimeNS is when the sample was read, in nanoseconds since 1970 (UTC), on the scale of EventRow.TimeNS.
	TimeNS int64 `parquet:"t_ns,delta"`
	// Cell is the key of the cell being measured, "" between cells.
	Cell string `parquet:"cell,dict"`
	// GPU numbers the GPU as GPU.Index does; null in a row about the machine as a whole.
	GPU *int32 `parquet:"gpu,optional"`

	Clock       *float64 `parquet:"clock_mhz,optional"` // of the cores that compute (SM, shader)
	MemoryClock *float64 `parquet:"memory_clock_mhz,optional"`
	Power       *float64 `parquet:"power_watts,optional"`
	// Energy is a counter that only rises: its differences are joules.
	Energy            *float64 `parquet:"energy_joules,optional"`
	Temperature       *float64 `parquet:"temperature_celsius,optional"`
	MemoryTemperature *float64 `parquet:"memory_temperature_celsius,optional"`
	Utilization       *float64 `parquet:"utilization_share,optional"` // 0–1
	MemoryUsed        *int64   `parquet:"gpu_memory_used_bytes,optional"`
	// What held the clocks down at the sample: the power limit, the temperature, the hardware's own
	// emergency (overheating or the power supply's signal), clocks that somebody set.
	PowerCap         *bool `parquet:"power_cap,optional"`
	Thermal          *bool `parquet:"thermal,optional"`
	HardwareSlowdown *bool `parquet:"hardware_slowdown,optional"`
	ClocksSet        *bool `parquet:"clocks_set,optional"`
	// PCIeGeneration and PCIeWidth are those of the link at the sample; the rates are what the GPU
	// received and sent over it.
	PCIeGeneration *int32   `parquet:"pcie_generation,optional"`
	PCIeWidth      *int32   `parquet:"pcie_width,optional"`
	PCIeReceived   *float64 `parquet:"pcie_received_bytes_per_second,optional"`
	PCIeSent       *float64 `parquet:"pcie_sent_bytes_per_second,optional"`
	// OtherProcesses compute on the GPU and are not the server's; OtherMemory is what they hold of it.
	OtherProcesses *int32 `parquet:"other_processes,optional"`
	OtherMemory    *int64 `parquet:"other_memory_bytes,optional"`

	// The rest is of the machine. CPUBusy (0–1), swapped and network bytes are since the sample before;
	// the network leaves out the machine's talk with itself.
	CPUBusy         *float64 `parquet:"cpu_busy_share,optional"`
	RAMUsed         *int64   `parquet:"ram_used_bytes,optional"`
	SwapIn          *int64   `parquet:"swap_in_bytes,optional"`
	SwapOut         *int64   `parquet:"swap_out_bytes,optional"`
	NetworkReceived *int64   `parquet:"network_received_bytes,optional"`
	NetworkSent     *int64   `parquet:"network_sent_bytes,optional"`
}

// The machines that Telemetry may be of.
const (
	TelemetryOfServer = "server" // the server's machine, which is also the client's
	TelemetryOfClient = "client" // the client's alone: the server's machine was out of reach
)

// Telemetry says what of the machine was sampled while the run went on, and what could not be.
type Telemetry struct {
	// Of is TelemetryOfServer or TelemetryOfClient.
	Of              string  `json:"of"`
	IntervalSeconds float64 `json:"interval_seconds"`
	// Sources are the tools and files that were read: "nvidia-smi", "sysfs".
	Sources []string `json:"sources"`
	// Scope says which GPUs were sampled, and by what they were chosen.
	Scope string `json:"scope"`
	GPUs  []GPU  `json:"gpus"`
	// Missing says, a sentence each, what could not be read and why.
	Missing []string `json:"missing"`
}

// GPU is a GPU that was sampled, with the limits that its samples are held against.
type GPU struct {
	// Index is its number on its machine, from 0, as its vendor's tools count.
	Index       int      `json:"index"`
	Name        string   `json:"name"`
	MemoryBytes *float64 `json:"memory_bytes"`
	// PowerLimit is what it may draw, PowerDefault what it may draw as it was delivered, in watts.
	PowerLimit   *float64 `json:"power_limit_watts"`
	PowerDefault *float64 `json:"power_default_watts"`
	// ClockMax is the highest clock of its computing cores, in MHz.
	ClockMax          *float64 `json:"clock_max_mhz"`
	PCIeGenerationMax *int     `json:"pcie_generation_max"`
	PCIeWidthMax      *int     `json:"pcie_width_max"`
	// ECC says whether the memory's errors are corrected.
	ECC *bool `json:"ecc"`
}

// ThrottleVerdict says what held a cell's clocks down.
type ThrottleVerdict string

// The verdicts, in the order in which they are tested.
const (
	ThrottleHardware ThrottleVerdict = "hardware slowdown" // in more than 5 % of the samples
	ThrottleThermal  ThrottleVerdict = "thermal"           // in more than 5 %
	ThrottlePowerCap ThrottleVerdict = "power cap"         // in more than 20 %
	ThrottleNone     ThrottleVerdict = "none"
)

// Throttle is what held a cell's clocks down, and in which share (0–1) of its N samples.
type Throttle struct {
	Verdict               ThrottleVerdict `json:"verdict"`
	HardwareSlowdownShare float64         `json:"hardware_slowdown_share"`
	ThermalShare          float64         `json:"thermal_share"`
	PowerCapShare         float64         `json:"power_cap_share"`
	N                     int             `json:"n"`
}

// ClockSummary is the clock of the computing cores over a cell's N samples, in MHz. DropShare is
// (max − min) ÷ max of the GPU where that is largest.
type ClockSummary struct {
	Median    float64 `json:"median"`
	Min       float64 `json:"min"`
	Max       float64 `json:"max"`
	DropShare float64 `json:"drop_share"`
	N         int     `json:"n"`
}
