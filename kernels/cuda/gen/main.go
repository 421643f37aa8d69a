// Command gen compiles the sources of kernels in src to PTX, with the one version of clang that the committed PTX is made by. It
// runs in the folder of package cuda: go generate ./kernels/cuda.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Compiler is the clang whose output is committed; another version writes other PTX.
const Compiler = "clang-19"

func main() {
	out := flag.String("out", "ptx", "folder of the PTX files")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	version, err := exec.Command(Compiler, "--version").Output()
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(version), "\n")
	sources, err := filepath.Glob("src/*.cu")
	if err != nil {
		return err
	}
	for _, src := range sources {
		for _, arch := range []string{"sm_61", "sm_80"} {
			cmd := exec.Command(Compiler, "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-gpu-arch="+arch,
				"-std=c++17", "-O3", "-ffp-contract=off", "-Wall", "-Werror", "-S", "-o", "-", src)
			cmd.Stderr = os.Stderr
			text, err := cmd.Output()
			if err != nil {
				return fmt.Errorf("%s for %s: %w", src, arch, err)
			}
			name := strings.TrimSuffix(filepath.Base(src), ".cu")
			file := filepath.Join(out, name+"."+arch+".ptx")
			if err := os.WriteFile(file, append([]byte("// "+first+"\n"), text...), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
