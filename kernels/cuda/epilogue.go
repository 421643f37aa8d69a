package cuda

import "qwb/kernels/cuda/driver"

// Epilogue mirrors the struct of epilogue.cuh.
type Epilogue struct {
	Out, Residual, Correction, Zeros, Sums driver.Ptr
	Stride, ResidualStride                 int64
	Kind, ResidualKind                     Element
	Channels, ZerosStep, Vector            int32
	_                                      int32
	Requantize                             Requantize
	Accumulated                            Accumulated
}

// Part mirrors the struct of epilogue.cuh: one of the products of a launch.
type Part struct {
	X, W                          int64
	Row, Channel, Correction, Sum int32
}
