package cuda

import (
	"embed"
	"fmt"
)

//go:generate go run ./gen

//go:embed ptx/*.ptx
var ptxFiles embed.FS

// ptxArchs are the compute capabilities that sources are compiled for, ascending. A device takes the newest that it can run; where the
// newer is no other program, there is only the older one.
var ptxArchs = []int{61, 80}

// ptxFor returns the PTX of a source for a device: that for its very architecture, as sm_90a, which no other runs, or else the
// newest.
func ptxFor(file string, arch int) ([]byte, error) {
	if arch < ptxArchs[0] {
		return nil, fmt.Errorf("cuda: compute capability %d.%d is older than %d.%d, the oldest that qwb has kernels for", arch/10, arch%10,
			ptxArchs[0]/10, ptxArchs[0]%10)
	}
	text, err := ptxFiles.ReadFile(fmt.Sprintf("ptx/%s.sm_%da.ptx", file, arch))
	for i := len(ptxArchs) - 1; err != nil && i >= 0; i-- {
		if ptxArchs[i] <= arch {
			text, err = ptxFiles.ReadFile(fmt.Sprintf("ptx/%s.sm_%d.ptx", file, ptxArchs[i]))
		}
	}
	return text, err
}
