package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the release; it stands in exported files as producer_version.
const version = "0.1.0"

func newVersion(e *env) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "version",
		Short: "Print version, revision and platform",
		Args:  exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			rev := "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						rev = s.Value
					}
				}
			}
			v := struct {
				Version  string `json:"version"`
				Revision string `json:"revision"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{version, rev, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if f.json {
				return e.printJSON(v)
			}
			_, err := fmt.Fprintf(e.stdout, "qwb %s (revision %s, %s, %s)\n", v.Version, v.Revision, v.Go, v.Platform)
			return err
		},
	}
	f.addJSON(c)
	return c
}
