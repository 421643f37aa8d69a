package gpu_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/kernels/cuda/emulate"
)

// TestAttendOmissions is TestOmissions of kernels/cuda for the kernel that has its tests here.
func TestAttendOmissions(t *testing.T) {
	if os.Getenv("QWB_OMISSIONS") == "" {
		t.Skip("QWB_OMISSIONS=1 asks for it")
	}
	t.Setenv("QWB_GPU", "off")
	tries := &emulate.Omissions{Most: 40}
	cudatest.Omissions = tries
	defer func() { cudatest.Omissions = nil }()
	TestDeviceGivesTheSameLogits(t)
	n := 0
	for _, o := range tries.List() {
		if o.Kernel == "attend" {
			n++
			assert.NotEmpty(t, o.Noticed, "line %d: %s", o.Line, o.Instruction)
		}
	}
	require.Equal(t, 5, n)
}
