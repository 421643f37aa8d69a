//go:build !linux

package cmd

import (
	"time"
)

// othersCPU is not known here: every measurement counts as quiet.
func othersCPU() (time.Duration, bool) { return 0, false }

// cpuModel is not known here.
func cpuModel() string { return "" }
