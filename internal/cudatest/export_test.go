package cudatest

// ForgetGPU is forgetGPU for tests.
func ForgetGPU() { forgetGPU() }
