package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"qwb/internal/options"
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
		Short: "Print version, revision, operating system and GPU",
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
				CUDA     gpuFound `json:"cuda"`
			}{version, revision(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, findGPU()}
			if asJSON {
				return e.printJSON(v)
			}
			_, err := fmt.Fprintf(e.stdout, "qwb %s (revision %s, %s, %s)\ncuda: %s\n", v.Version, v.Revision, v.Go, v.Platform, v.CUDA)
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
