package driver

import "errors"

// Why there is no device to work with. What Open and cuda.Open return wraps one of these, or a Result where the driver itself
// fails.
var (
	ErrNotBuilt  = errors.New("this qwb was built without CUDA")
	ErrNoDriver  = errors.New("NVIDIA driver library not found")
	ErrOldDriver = errors.New("NVIDIA driver is too old")
	ErrNoDevice  = errors.New("no NVIDIA GPU found")
	ErrOldDevice = errors.New("GPU is too old")
)

// MinVersion is the oldest CUDA that a driver has to support: it is what the committed PTX is written in.
const MinVersion = 11000
