// Command gen compiles the sources of kernels in src to compressed PTX, with the one version of clang that the committed PTX is made by. It
// runs in the folder of package cuda: go generate ./kernels/cuda. With names of sources it compiles only those.
//
// A source X.cu becomes X.sm_61.ptx.gz and, where that is another program, X.sm_80.ptx.gz; one that is named for an architecture, as
// X.sm_90a.cu, is compiled for that only. The PTX depends on the sources, their headers and the compiler alone; a file whose PTX is the
// same is left as it is, since another release of Go may compress it to other bytes. zcat shows it.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Compiler is the clang whose output is committed; another version writes other PTX.
const Compiler = "clang-19"

// archs are what a source is compiled for unless its name says otherwise.
var archs = []string{"sm_61", "sm_80"}

func main() {
	out := flag.String("out", "ptx", "folder of the PTX files")
	flag.Parse()
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// unit is one output.
type unit struct {
	src, arch, file string
	text            []byte // nil: the one before serves this architecture too
}

// units lists what the sources may become, by source and ascending architecture.
func units(out string) ([]unit, error) {
	sources, err := filepath.Glob("src/*.cu")
	if err != nil {
		return nil, err
	}
	if len(sources) == 0 {
		return nil, errors.New("no sources in src: not the folder of package cuda")
	}
	var list []unit
	for _, src := range sources {
		name := strings.TrimSuffix(filepath.Base(src), ".cu")
		only := archs
		if base, arch, ok := strings.Cut(name, ".sm_"); ok {
			name, only = base, []string{"sm_" + arch}
		}
		for _, arch := range only {
			list = append(list, unit{src: src, arch: arch, file: filepath.Join(out, name+"."+arch+".ptx.gz")})
		}
	}
	return list, nil
}

// run compiles the sources that are named, or all; only then what no source stands for is removed. Nothing is written unless everything
// compiles.
func run(out string, names []string) error {
	version, err := exec.Command(Compiler, "--version").Output()
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(version), "\n")
	list, err := units(out)
	if err != nil {
		return err
	}
	chosen := list
	if len(names) > 0 {
		chosen = slices.DeleteFunc(slices.Clone(list), func(u unit) bool {
			name, _, _ := strings.Cut(filepath.Base(u.src), ".")
			return !slices.Contains(names, name)
		})
		if len(chosen) == 0 {
			return fmt.Errorf("no source named %s", strings.Join(names, " or "))
		}
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	errs := make([]error, len(chosen))
	limit := make(chan struct{}, runtime.NumCPU())
	var wg sync.WaitGroup
	for i, u := range chosen {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			chosen[i].text, errs[i] = u.compile(first)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i := range chosen {
		if i > 0 && chosen[i].src == chosen[i-1].src && bytes.Equal(withoutTarget(chosen[i].text), withoutTarget(chosen[i-1].text)) {
			chosen[i].text = nil
		}
	}
	for _, u := range chosen {
		if err := u.write(); err != nil {
			return err
		}
	}
	if len(names) > 0 {
		return nil
	}
	return removeOthers(out, list)
}

var target = regexp.MustCompile(`(?m)^\.target .*$`)

// withoutTarget is PTX without the line that names its architecture.
func withoutTarget(text []byte) []byte { return target.ReplaceAll(text, nil) }

// compile returns the PTX of a source.
func (u unit) compile(version string) ([]byte, error) {
	isa := "ptx80"
	switch source, err := os.ReadFile(u.src); {
	case err != nil:
		return nil, err
	case u.arch == "sm_61" || u.arch == "sm_80":
		isa = "ptx70" // what the oldest driver that is served reads; it has shfl.sync
	case bytes.Contains(source, []byte("\n// PTX ISA 8.4\n")):
		isa = "ptx84" // for instructions that 8.0 does not have
	}
	// A CUDA toolkit that clang finds changes nothing.
	args := []string{"-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "-Wno-unknown-cuda-version", "--cuda-gpu-arch=" + u.arch,
		"--cuda-feature=+" + isa}
	cmd := exec.Command(Compiler, append(args, "-std=c++17", "-O3", "-ffp-contract=off", "-fno-verbose-asm", "-Wall", "-Werror", "-S", "-o",
		"-", u.src)...)
	var messages bytes.Buffer
	cmd.Stderr = &messages
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s for %s: %w\n%s", u.src, u.arch, err, messages.Bytes())
	}
	return append([]byte("// "+version+"\n"), text...), nil
}

// write writes the PTX where it is another than the file has, or removes the file where another architecture's serves.
func (u unit) write() error {
	old, err := unpacked(u.file)
	switch {
	case u.text == nil && err == nil:
		return os.Remove(u.file)
	case u.text == nil || err == nil && bytes.Equal(old, u.text):
		return nil
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(u.text); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(u.file, b.Bytes(), 0o644)
}

// unpacked is the PTX in a file.
func unpacked(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// removeOthers removes PTX that no source becomes.
func removeOthers(out string, list []unit) error {
	files, err := filepath.Glob(filepath.Join(out, "*.ptx*"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if !slices.ContainsFunc(list, func(u unit) bool { return u.file == f }) {
			if err := os.Remove(f); err != nil {
				return err
			}
		}
	}
	return nil
}
