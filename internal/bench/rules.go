package bench

import "time"

// Rules are the settings of one cell's protocol.
type Rules struct {
	Concurrency int
	// Fills is the number of heads to fill before the launch.
	Fills int
	// DrainLimit is how long the engine may take to become empty.
	DrainLimit time.Duration
	// FillLimit is how long one fill may take.
	FillLimit time.Duration
	// BaseRunning and BaseWaiting are the foreign load that a drain accepts.
	BaseRunning, BaseWaiting float64
	// MinSinceLaunch is the least time from launch until the ramp's condition can hold, Hold how long it must.
	Hold, MinSinceLaunch time.Duration
	// Allowance is the time from launch until the cell is not ready; with MeasureUnready the window opens then all the same.
	Allowance      time.Duration
	MeasureUnready bool
	// FromFill counts MinSinceLaunch from the beginning of the fills, not from the launch.
	FromFill bool
	// Saturation is how long no first token may come while some wait, before the engine counts as saturated; 0 never.
	Saturation time.Duration
	// Spacing is the time between two launches.
	Spacing time.Duration
	Window  WindowRules
	// EndOnLoop ends the window at once when a loop is confirmed in it, because the cell is measured again.
	EndOnLoop bool
}

// WindowRules shape the window of a cell.
type WindowRules struct {
	Duration, Min time.Duration
	// Tokens by the slowest stream end the window before Duration; 0 never.
	Tokens int
	// MinTokens by the slowest stream are waited for, at most MaxExtension × Duration.
	MinTokens    int
	MaxExtension float64
	// Precision is the half width of the 95 % interval, as a share, that ends the window early; 0 never.
	Precision float64
}
