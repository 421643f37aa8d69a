package main

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"qwb/reports"
)

// sbom writes the bill of materials of this program: every module that was linked into it, by the build information that it carries, and
// Go's own library.
func (e *env) sbom(w io.Writer) error {
	t := e.tool()
	b := &reports.BOM{Component: reports.BOMComponent{Type: "application", Ref: "qwb", Name: "qwb", Version: version}.Hashed(t.SHA256),
		Components: []reports.BOMComponent{goModule("std", strings.TrimPrefix(runtime.Version(), "go"), "")}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return usagef("this program was built without the list of its modules")
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Components = append(b.Components, goModule(m.Path, m.Version, m.Sum))
	}
	return b.Write(w)
}

// goModule is a module of Go as a component. sum is that of go.sum: "h1:" and the SHA-256 of the hashes of its files, in base64.
func goModule(path, version, sum string) reports.BOMComponent {
	purl := "pkg:golang/" + path + "@" + version
	c := reports.BOMComponent{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl}
	if b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(b) == 32 {
		c = c.Hashed(hex.EncodeToString(b))
	}
	return c
}
