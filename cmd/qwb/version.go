package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"qwb/internal/options"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/cuda"
)

// version is the release; it stands in exported files as producer_version. A release script may set it (-ldflags "-X main.version=..."),
// and commit where the sources lie in no repository.
var (
	version = "0.1.0"
	commit  = ""
)

func newVersion(e *env) *cobra.Command {
	var asJSON, sbom bool
	return e.takes(&cobra.Command{
		Use:   "version",
		Short: "Print version, revision, operating system, instruction sets and GPU",
		Example: lines(
			"qwb version --json",
			"qwb version --sbom"),
		Args: exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			if sbom {
				return e.sbom(e.stdout)
			}
			v := struct {
				Version  string   `json:"version"`
				Revision string   `json:"revision"`
				Go       string   `json:"go"`
				Platform string   `json:"platform"`
				CPU      cpuFound `json:"cpu"`
				CUDA     gpuFound `json:"cuda"`
			}{version, revision(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, findCPU(), findGPU()}
			if asJSON {
				return e.printJSON(v)
			}
			_, err := fmt.Fprintf(e.stdout, "qwb %s (revision %s, %s, %s)\ncpu: %s\ncuda: %s\n", v.Version, v.Revision, v.Go, v.Platform, v.CPU,
				v.CUDA)
			return err
		},
	}, append(options.JSON(&asJSON), options.Option{Name: "sbom", See: "install.md", At: &sbom,
		Help: "print the bill of materials of this program: CycloneDX 1.6, JSON"}))
}

// revision is the commit that the binary was built from.
func revision() string {
	if commit != "" {
		return commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

// cpuFound is what the kernels are chosen by, and why they leave out tiles that the processor has.
type cpuFound struct {
	Features string `json:"features"`
	NoAMX    string `json:"no_amx,omitempty"`
}

func findCPU() cpuFound {
	f := cpu.Detect()
	c := cpuFound{f.String(), cpu.NoAMX()}
	rows := kernels.Select(f).Rows()
	for _, r := range kernels.Rows() {
		if r.ISA == "amx" && r.Runs(f) && rows[r.Op].ISA != r.ISA {
			c.NoAMX = fmt.Sprintf("its tiles compute something else than the definition of %v: please report it, with the processor's name", r.Op)
		}
	}
	return c
}

func (c cpuFound) String() string {
	if c.NoAMX == "" {
		return c.Features
	}
	return c.Features + "; AMX is not used: " + c.NoAMX
}

// gpuFound is what --backend cuda would run on, or why it would not.
type gpuFound struct {
	Available         bool   `json:"available"`
	Reason            string `json:"reason,omitempty"`
	Device            string `json:"device,omitempty"`
	ComputeCapability string `json:"compute_capability,omitempty"`
	MemoryBytes       int64  `json:"memory_bytes,omitempty"`
	Driver            string `json:"driver,omitempty"`

	found cuda.Found
}

func (g gpuFound) String() string {
	if !g.Available {
		return "not available: " + g.Reason
	}
	return g.found.String()
}

func findGPU() gpuFound {
	f, err := cuda.Find()
	if err != nil {
		return gpuFound{Reason: err.Error()}
	}
	return gpuFound{Available: true, Device: f.Name, ComputeCapability: f.ComputeCapability(), MemoryBytes: f.Memory, Driver: f.Driver(),
		found: f}
}
