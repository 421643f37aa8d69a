package cuda_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
)

// ptxFile is one committed file.
type ptxFile struct {
	file, name, arch string // ptx/peak.sm_80.ptx.gz, peak, sm_80
	text             string
}

func ptxFiles(t *testing.T) []ptxFile {
	t.Helper()
	paths, err := filepath.Glob("ptx/*.ptx.gz")
	require.NoError(t, err)
	if len(paths) == 0 {
		t.Skip("no ptx folder here: the files are looked at where the sources are")
	}
	var list []ptxFile
	for _, p := range paths {
		text := unpacked(t, p)
		name, arch, ok := strings.Cut(strings.TrimSuffix(filepath.Base(p), ".ptx.gz"), ".")
		require.True(t, ok, p)
		list = append(list, ptxFile{p, name, arch, string(text)})
	}
	return list
}

// unpacked reads a compressed file. Its header names neither file nor time, so that the same PTX is the same file.
func unpacked(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(b))
	require.NoError(t, err, path)
	require.True(t, z.Name == "" && z.ModTime.IsZero() && len(z.Extra) == 0, path)
	text, err := io.ReadAll(z)
	require.NoError(t, err, path)
	return string(text)
}

// The committed PTX is what the sources become.
func TestPTXIsCurrent(t *testing.T) {
	longtest.Need(t, "compiles all kernels")
	files := ptxFiles(t)
	pinned, _, _ := strings.Cut(files[0].text, "\n")
	version, err := exec.Command("clang-19", "--version").Output()
	if first, _, _ := strings.Cut(string(version), "\n"); err != nil || "// "+first != pinned {
		t.Skipf("PTX is made by %s, which is not here", strings.TrimPrefix(pinned, "// "))
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	dir := t.TempDir()
	text, err := exec.Command("go", "run", "./gen", "-out", dir).CombinedOutput()
	require.NoError(t, err, string(text))
	made, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names, committed []string
	for _, m := range made {
		names = append(names, m.Name())
	}
	for _, f := range files {
		committed = append(committed, filepath.Base(f.file))
		if now := filepath.Join(dir, filepath.Base(f.file)); slices.Contains(names, filepath.Base(now)) && unpacked(t, now) != f.text {
			t.Errorf("%s is not what its source becomes: go generate ./kernels/cuda", f.file)
		}
	}
	assert.Equal(t, names, committed, "go generate ./kernels/cuda")
}

// ptxVersions are the newest versions of the language that files may be in: the driver has to be able to read them. 7.0 is CUDA 11.0,
// 8.4 is CUDA 12.4; where a driver cannot read sm_90a's files, those of sm_80 serve.
var ptxVersions = map[string]float64{"sm_61": 7.0, "sm_80": 7.0, "sm_90a": 8.4}

// inexact are instructions that do not round as IEEE 754 says. A kernel that may use one stands here, with the reason.
var inexact = map[string]string{}

var (
	// contractible: without .rn, ptxas may fuse a product with a sum.
	contractible = regexp.MustCompile(`^(add|sub|mul|mad)\.(ftz\.|sat\.)*f(32|64|16|16x2)$`)
	approximate  = regexp.MustCompile(`\.(approx|full|ftz)\b`)
	instruction  = regexp.MustCompile(`(?m)^\s*(?:@!?%p\d+\s+)?([a-z][a-z0-9_]*(?:\.[a-z0-9_:]+)*)\s`)
	function     = regexp.MustCompile(`^(?:\.visible |\.weak )*\.(entry|func)\b.*?(\w+)\($`)
)

// faults lists what PTX must not have.
func faults(f ptxFile) (list []string) {
	complain := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	newest, known := ptxVersions[f.arch]
	if !known {
		complain("architecture %s", f.arch)
	}
	if !strings.Contains(f.text, "\n.target "+f.arch+"\n") {
		complain("no .target %s", f.arch)
	}
	if m := regexp.MustCompile(`(?m)^\.version (\d+\.\d+)$`).FindStringSubmatch(f.text); m == nil {
		complain("no .version")
	} else if v, err := strconv.ParseFloat(m[1], 64); err != nil || v > newest {
		complain(".version %s is newer than %.1f", m[1], newest)
	}
	in := ""
	for _, line := range strings.Split(f.text, "\n") {
		if m := function.FindStringSubmatch(line); m != nil {
			in = f.name + "." + m[2]
		}
		line, _, _ = strings.Cut(line, "//")
		if strings.HasPrefix(strings.TrimSpace(line), ".extern .func") {
			complain("a function that is nowhere: %s", strings.TrimSpace(line))
		}
		m := instruction.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		switch op := m[1]; {
		case contractible.MatchString(op):
			complain("%s: %s may be fused", in, op)
		case approximate.MatchString(op) && inexact[in+" "+op] == "":
			complain("%s: %s is not exact", in, op)
		}
	}
	return list
}

// What is committed can be read by old drivers, and computes what IEEE 754 says.
func TestPTXIsExact(t *testing.T) {
	used := map[string]bool{}
	for _, f := range ptxFiles(t) {
		assert.Empty(t, faults(f), f.file)
		for k := range inexact {
			name, op, _ := strings.Cut(k, " ")
			if file, entry, _ := strings.Cut(name, "."); file == f.name && strings.Contains(f.text, entry+"(") && strings.Contains(f.text, op) {
				used[k] = true
			}
		}
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(inexact)), slices.Collect(maps.Keys(used)), "exceptions that nothing needs")
}

func TestPTXFaultsAreFound(t *testing.T) {
	head := ".version 7.0\n.target sm_80\n.visible .entry k(\n"
	file := func(body string) ptxFile { return ptxFile{"", "x", "sm_80", "// clang\n" + head + body} }
	assert.Empty(t, faults(file("\tadd.rn.f32 \t%f1, %f2, %f3;\n\t@%p1 fma.rn.f32 %f1, %f2, %f3, %f4;\n\tadd.s32 %r1, %r2, %r3;\n"+
		"\tmul.wide.u32 %rd1, %r1, %r2; // mul.f32 x\n")))
	for body, fault := range map[string]string{
		"\tmul.f32 \t%f1, %f2, %f3;\n":                   "x.k: mul.f32 may be fused",
		"\t@%p2 add.f64 \t%fd1, %fd2, %fd3;\n":           "x.k: add.f64 may be fused",
		"\tadd.rn.ftz.f32 \t%f1, %f2, %f3;\n":            "x.k: add.rn.ftz.f32 is not exact",
		"\tex2.approx.f32 \t%f1, %f2;\n":                 "x.k: ex2.approx.f32 is not exact",
		"\tdiv.full.f32 \t%f1, %f2, %f3;\n":              "x.k: div.full.f32 is not exact",
		".extern .func  (.param .b32 r) vprintf\n":       "a function that is nowhere: .extern .func  (.param .b32 r) vprintf",
		"\tmad.f32 \t%f1, %f2, %f3, %f4;\n":              "x.k: mad.f32 may be fused",
		"\tsqrt.approx.ftz.f32 \t%f1, %f2;\n":            "x.k: sqrt.approx.ftz.f32 is not exact",
		"\tfma.rn.f32 \t%f1, %f2, %f3, %f4;\nsub.f32 a ": "x.k: sub.f32 may be fused",
	} {
		assert.Equal(t, []string{fault}, faults(file(body)))
	}
	assert.Equal(t, []string{".version 7.8 is newer than 7.0"}, faults(ptxFile{"", "x", "sm_80", ".version 7.8\n.target sm_80\n"}))
	assert.Equal(t, []string{"no .target sm_61"}, faults(ptxFile{"", "x", "sm_61", ".version 6.0\n.target sm_80\n"}))
}

// spills are kernels that may keep so many bytes of registers in memory: path.Match patterns. None of them stands for what takes the
// time of networks: products, also through windows, depthwise windows of 3 x 3, products of float32.
var spills = []struct {
	kernels string
	most    int
	why     string
}{
	{"depthwise.few_?8", 80, "the code of padding has an address, so that reading it needs no branch"},
	{"depthwise.some_?8", 80, "as few"},
	{"depthwise.many_?8", 80, "as few"},
	{"groups.groups_*", 32, "around the loop"},
}

// maySpill is how many bytes a kernel may spill.
func maySpill(t *testing.T, kernel string) int {
	for _, s := range spills {
		ok, err := path.Match(s.kernels, kernel)
		require.NoError(t, err)
		if ok {
			return s.most
		}
	}
	return 0
}

// assembled is what ptxas says of a kernel.
type assembled struct {
	registers, shared, stack, stores, loads int
}

var (
	ptxasEntry = regexp.MustCompile(`Compiling entry function '(\w+)' for`)
	ptxasFrame = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	ptxasUsed  = regexp.MustCompile(`Used (\d+) registers`)
	ptxasSmem  = regexp.MustCompile(`(\d+) bytes smem`)
)

// assemble runs ptxas and returns what it says of each kernel, and its warnings.
func assemble(t *testing.T, ptxas, path, arch string) (map[string]*assembled, []string) {
	t.Helper()
	text, err := exec.Command(ptxas, "-arch="+arch, "-v", "-o", os.DevNull, path).CombinedOutput()
	require.NoError(t, err, "%s for %s: %s", path, arch, text)
	all := map[string]*assembled{}
	now := &assembled{}
	var warnings []string
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	for _, line := range strings.Split(string(text), "\n") {
		if m := ptxasEntry.FindStringSubmatch(line); m != nil {
			now = &assembled{}
			all[m[1]] = now
		}
		if m := ptxasFrame.FindStringSubmatch(line); m != nil {
			now.stack, now.stores, now.loads = max(now.stack, number(m[1])), now.stores+number(m[2]), now.loads+number(m[3])
		}
		if m := ptxasUsed.FindStringSubmatch(line); m != nil {
			now.registers = number(m[1])
		}
		if m := ptxasSmem.FindStringSubmatch(line); m != nil {
			now.shared = number(m[1])
		}
		if strings.Contains(line, "warning") && !strings.Contains(line, ".minnctapersm will be ignored") { // a device with fewer threads
			warnings = append(warnings, line)
		}
	}
	return all, warnings
}

// assembleFor are the devices that a file is assembled for: those that load it.
var assembleFor = map[string][]string{"sm_61": {"sm_61", "sm_75"}, "sm_80": {"sm_80", "sm_86", "sm_89", "sm_90"}, "sm_90a": {"sm_90a"}}

// NVIDIA's assembler takes every kernel, and hardly any keeps registers in memory.
func TestPTXAssembles(t *testing.T) {
	files := ptxFiles(t)
	ptxas := os.Getenv("QWB_PTXAS")
	if ptxas == "" {
		var err error
		if ptxas, err = exec.LookPath("ptxas"); err != nil {
			t.Skip("no ptxas here: name one by QWB_PTXAS")
		}
	}
	newer := map[string]bool{}
	for _, f := range files {
		newer[f.name] = newer[f.name] || f.arch == "sm_80"
	}
	dir := t.TempDir()
	for _, f := range files {
		file := filepath.Join(dir, f.name+"."+f.arch+".ptx")
		require.NoError(t, os.WriteFile(file, []byte(f.text), 0o666))
		archs := assembleFor[f.arch]
		if f.arch == "sm_61" && !newer[f.name] {
			archs = slices.Concat(archs, assembleFor["sm_80"])
		}
		for _, arch := range archs {
			t.Run(f.name+"/"+arch, func(t *testing.T) {
				t.Parallel()
				kernels, warnings := assemble(t, ptxas, file, arch)
				assert.Empty(t, warnings)
				assert.Len(t, kernels, strings.Count(f.text, ".visible .entry"))
				for _, name := range slices.Sorted(maps.Keys(kernels)) {
					k := kernels[name]
					t.Logf("%-32s %3d registers, %5d bytes of shared memory, stack %d, spilled %d, %d", name, k.registers, k.shared, k.stack,
						k.stores, k.loads)
					full := f.name + "." + name
					if most := maySpill(t, full); k.stack > 2*most || k.stores > most || k.loads > 2*most {
						t.Errorf("%s for %s: stack frame of %d bytes, %d bytes of spill stores, %d of loads", full, arch, k.stack, k.stores, k.loads)
					}
				}
			})
		}
	}
}

// A kernel that spills is found.
func TestSpillsAreFound(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "ptxas")
	out := "ptxas info    : Compiling entry function 'k' for 'sm_80'\nptxas info    : Function properties for k\n" +
		"    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n" +
		"ptxas info    : Used 32 registers, used 1 barriers, 4096 bytes smem\n" + "ptxas warning : something\n"
	require.NoError(t, os.WriteFile(fake, []byte("#!/bin/sh\ncat <<'E'\n"+out+"E\n"), 0o755))
	if err := exec.Command(fake).Run(); err != nil {
		t.Skip("no shell here")
	}
	all, warnings := assemble(t, fake, "x.ptx", "sm_80")
	assert.Equal(t, map[string]*assembled{"k": {32, 4096, 8, 4, 12}}, all)
	assert.Equal(t, []string{"ptxas warning : something"}, warnings)
	assert.Zero(t, maySpill(t, "product_128x128.window_u8"))
	assert.Equal(t, 80, maySpill(t, "depthwise.few_s8"))
}

// The compiler's version stands in the first line of every file, and it is the same in all.
func TestPTXHasOneCompiler(t *testing.T) {
	files := ptxFiles(t)
	for _, f := range files {
		first, _, _ := strings.Cut(f.text, "\n")
		assert.Contains(t, first, "clang version ", f.file)
		assert.True(t, strings.HasPrefix(files[0].text, first+"\n"), f.file)
	}
}
