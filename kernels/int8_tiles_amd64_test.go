//go:build !purego

package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"qwb/kernels/cpu"
)

// machine is a processor with tiles that executes the functions of z_amx_amd64.s, on any processor: the general instructions by their
// names, those of tiles by their bytes. What it does with tiles is that which the manual says of each instruction.
type machine struct {
	t       *testing.T
	code    map[string][]string
	labels  map[string]map[string]int
	general map[string]int
	less    bool // of the last comparison
	equal   bool
	tiles   [8][16][64]byte
	rows    [8]int
	bytes   [8]int
	on      bool // tiles are configured
	vectors map[string][16]uint32
	memory  [8][]byte
}

// Addresses are the number of a region and a place in it.
const regionBits = 40

// symbols are the names of go_asm.h for the structs that tiles read.
var symbols = func() map[string]int {
	names := map[string]int{}
	for _, x := range []any{tileCall{}, tilePlace{}, segment{}, groupsCall{}} {
		of := reflect.TypeOf(x)
		names[of.Name()+"__size"] = int(of.Size())
		for i := range of.NumField() {
			names[of.Name()+"_"+of.Field(i).Name] = int(of.Field(i).Offset)
		}
	}
	return names
}()

func newMachine(t *testing.T) *machine {
	text, err := os.ReadFile("z_amx_amd64.s")
	require.NoError(t, err)
	m := &machine{t: t, code: map[string][]string{}, labels: map[string]map[string]int{}, general: map[string]int{},
		vectors: map[string][16]uint32{}}
	name := ""
	for _, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "TEXT ·"):
			name, _, _ = strings.Cut(strings.TrimPrefix(line, "TEXT ·"), "(")
			m.labels[name] = map[string]int{}
		case strings.HasPrefix(line, "\t"):
			m.code[name] = append(m.code[name], strings.TrimSpace(line))
		case strings.HasSuffix(line, ":"):
			m.labels[name][strings.TrimSuffix(line, ":")] = len(m.code[name])
		}
	}
	return m
}

// value is a sum of products of numbers and symbols.
func (m *machine) value(text string) int {
	sum := 0
	for _, term := range strings.Split(strings.Trim(text, "()"), "+") {
		product := 1
		for _, f := range strings.Split(term, "*") {
			n, err := strconv.Atoi(f)
			if s, ok := symbols[f]; ok {
				n, err = s, nil
			}
			require.NoError(m.t, err, text)
			product *= n
		}
		sum += product
	}
	return sum
}

var memoryText = regexp.MustCompile(`^(\(?[\w+*]*\)?)\((\w+)\)$`)

// address is that of an operand in memory.
func (m *machine) address(text string) (int, bool) {
	of := memoryText.FindStringSubmatch(text)
	if of == nil {
		return 0, false
	}
	disp := 0
	if of[1] != "" {
		disp = m.value(of[1])
	}
	return m.general[of[2]] + disp, true
}

// at are n bytes of memory: those of one region.
func (m *machine) at(address, n int) []byte {
	region, place := address>>regionBits, address&(1<<regionBits-1)
	require.True(m.t, region > 0 && region < len(m.memory) && place+n <= len(m.memory[region]), "bytes %d to %d of region %d", place, place+n,
		region)
	return m.memory[region][place:][:n]
}

func (m *machine) read(operand string) int {
	if operand == "t+0(FP)" {
		return 1 << regionBits
	}
	if text, ok := strings.CutPrefix(operand, "$"); ok {
		return m.value(text)
	}
	if address, ok := m.address(operand); ok {
		return int(binary.LittleEndian.Uint64(m.at(address, 8)))
	}
	return m.general[operand]
}

// call executes a function on the argument in region 1.
func (m *machine) call(name string) {
	for at := 0; ; at++ {
		op, rest, _ := strings.Cut(m.code[name][at], " ")
		operands := strings.Split(rest, ", ")
		switch op {
		case "RET":
			require.False(m.t, m.on, "tiles stay configured")
			return
		case "BYTE":
			m.tile(rest)
		case "MOVQ":
			if to, ok := m.address(operands[1]); ok {
				binary.LittleEndian.PutUint64(m.at(to, 8), uint64(m.read(operands[0])))
				continue
			}
			m.general[operands[1]] = m.read(operands[0])
		case "LEAQ":
			m.general[operands[1]], _ = m.address(operands[0])
		case "ADDQ":
			m.general[operands[1]] += m.read(operands[0])
		case "SUBQ":
			m.general[operands[1]] -= m.read(operands[0])
		case "SHLQ":
			m.general[operands[1]] <<= m.read(operands[0])
		case "DECQ":
			m.general[operands[0]]--
			m.equal = m.general[operands[0]] == 0
		case "CMPQ":
			a, b := m.read(operands[0]), m.read(operands[1])
			m.less, m.equal = a < b, a == b
		case "JMP", "JLT", "JEQ", "JNE":
			if op == "JMP" || op == "JLT" && m.less || op == "JEQ" && m.equal || op == "JNE" && !m.equal {
				to, ok := m.labels[name][operands[0]]
				require.True(m.t, ok, operands[0])
				at = to - 1
			}
		default:
			m.vector(op, operands)
		}
	}
}

// vector executes an instruction of vectors of 16 elements, whose last operand is written.
func (m *machine) vector(op string, operands []string) {
	if op == "VZEROUPPER" {
		return
	}
	name, _, _ := strings.Cut(op, ".")
	f, last := vectorInstructions[name], operands[len(operands)-1]
	require.NotNil(m.t, f, "an instruction that the machine does not have: %s %v", op, operands)
	var of [2][16]uint32
	for i, operand := range operands[:len(operands)-1] {
		of[i] = m.vectors[operand]
		if number, ok := strings.CutPrefix(operand, "$"); ok {
			of[i][0] = uint32(m.value(number))
		} else if from, ok := m.address(operand); ok {
			one := strings.HasSuffix(op, ".BCST") || name == "VPBROADCASTD"
			for k := range of[i] {
				place := from + 4*k
				if one {
					place = from
				}
				of[i][k] = binary.LittleEndian.Uint32(m.at(place, 4))
			}
		}
	}
	result := [16]uint32{}
	for k := range result {
		if result[k] = f(of[0][k], of[1][k]); strings.HasPrefix(operands[0], "$") {
			result[k] = f(of[0][0], of[1][k])
		}
	}
	if to, ok := m.address(last); ok {
		for k, x := range result {
			binary.LittleEndian.PutUint32(m.at(to+4*k, 4), x)
		}
		return
	}
	m.vectors[last] = result
}

// vectorInstructions are what instructions do to the elements of their operands, in the order of Go's assembler.
var vectorInstructions = map[string]func(a, b uint32) uint32{
	"VMOVDQU32":    func(a, _ uint32) uint32 { return a },
	"VMOVUPS":      func(a, _ uint32) uint32 { return a },
	"VPBROADCASTD": func(a, _ uint32) uint32 { return a },
	"VPANDD":       func(a, b uint32) uint32 { return a & b },
	"VPXORD":       func(a, b uint32) uint32 { return a ^ b },
	"VPADDD":       func(a, b uint32) uint32 { return a + b },
	"VPSLLD":       func(n, a uint32) uint32 { return a << n },
	"VPSRLD":       func(n, a uint32) uint32 { return a >> n },
	"VCVTDQ2PS":    func(a, _ uint32) uint32 { return math.Float32bits(float32(int32(a))) },
	"VMULPS":       func(a, b uint32) uint32 { return math.Float32bits(math.Float32frombits(a) * math.Float32frombits(b)) },
	"VADDPS":       func(a, b uint32) uint32 { return math.Float32bits(math.Float32frombits(a) + math.Float32frombits(b)) },
}

// tile decodes an instruction of tiles, holds it to what the line says of it, and executes it.
func (m *machine) tile(line string) {
	list, comment, _ := strings.Cut("BYTE "+line, " // ")
	var code []byte
	for _, text := range strings.Split(list, "; ") {
		n, err := strconv.ParseUint(strings.TrimPrefix(text, "BYTE $"), 0, 8)
		require.NoError(m.t, err, line)
		code = append(code, byte(n))
	}
	require.Equal(m.t, byte(0xc4), code[0])
	require.Equal(m.t, byte(2), code[1]&31, "map 0F38")
	require.Zero(m.t, code[2]&0x84, "W and L")
	prefix, third := code[2]&3, int(^code[2]>>3&15)
	mod, reg, rm := code[4]>>6, int(code[4]>>3&7), int(code[4]&7)
	names := []string{"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15"}
	said := ""
	switch {
	case code[3] == 0x49 && prefix == 0 && mod == 3:
		said, m.on = "TILERELEASE", false
	case code[3] == 0x49 && prefix == 0 && mod == 0:
		base := names[rm]
		said = fmt.Sprintf("LDTILECFG (%s)", base)
		m.configure(m.at(m.general[base], 64))
	case code[3] == 0x4b && mod == 1 && rm == 4 && code[5]>>6 == 0 && prefix >= 2:
		base, index := names[code[5]&7|^code[1]>>5&1<<3], names[code[5]>>3&7|^code[1]>>6&1<<3]
		name := map[byte]string{3: "TILELOADD", 2: "TILESTORED"}[prefix]
		said = fmt.Sprintf("%s T%d, %d(%s)(%s*1)", name, reg, int8(code[6]), base, index)
		m.move(prefix == 3, reg, m.general[base]+int(int8(code[6])), m.general[index])
	case code[3] == 0x49 && prefix == 3 && mod == 3 && rm == 0:
		said, m.tiles[reg] = fmt.Sprintf("TILEZERO T%d", reg), [16][64]byte{}
		require.True(m.t, m.on && m.rows[reg] > 0)
	case code[3] == 0x5e && (prefix == 1 || prefix == 2) && mod == 3:
		said = fmt.Sprintf("%s T%d, T%d, T%d", map[byte]string{1: "TDPBUSD", 2: "TDPBSUD"}[prefix], reg, rm, third)
		m.dot(prefix == 2, reg, rm, third)
	}
	require.Equal(m.t, comment, said, "%x", code)
}

func (m *machine) configure(b []byte) {
	require.Equal(m.t, byte(1), b[0], "palette")
	m.on = true
	for i := range m.tiles {
		m.tiles[i], m.rows[i], m.bytes[i] = [16][64]byte{}, int(b[48+i]), int(binary.LittleEndian.Uint16(b[16+2*i:]))
		require.LessOrEqual(m.t, m.rows[i], 16)
		require.LessOrEqual(m.t, m.bytes[i], 64)
		require.Equal(m.t, m.rows[i] == 0, m.bytes[i] == 0)
	}
}

// move loads or stores a tile.
func (m *machine) move(load bool, tile, address, apart int) {
	require.True(m.t, m.on && m.rows[tile] > 0, "tile %d", tile)
	for r := range m.rows[tile] {
		if b := m.at(address+r*apart, m.bytes[tile]); load {
			m.tiles[tile][r] = [64]byte{}
			copy(m.tiles[tile][r][:], b)
		} else {
			copy(b, m.tiles[tile][r][:])
		}
	}
}

// dot is TDPBUSD: c += a*b, a without sign, b with one; or TDPBSUD, the other way round.
func (m *machine) dot(leftSigned bool, c, a, b int) {
	require.True(m.t, m.on && c != a && c != b && a != b)
	require.Equal(m.t, m.rows[c], m.rows[a])
	require.Equal(m.t, m.bytes[c], m.bytes[b])
	require.Equal(m.t, m.bytes[a], 4*m.rows[b])
	for r := range m.rows[c] {
		for n := range m.bytes[c] / 4 {
			cell := m.tiles[c][r][4*n:]
			sum := int32(binary.LittleEndian.Uint32(cell))
			for k := range m.rows[b] {
				for e := range 4 {
					x, y := m.tiles[a][r][4*k+e], m.tiles[b][k][4*n+e]
					if leftSigned {
						x, y = y, x
					}
					sum += int32(x) * int32(int8(y))
				}
			}
			binary.LittleEndian.PutUint32(cell, uint32(sum))
		}
	}
}

// raw are the bytes of a slice.
func raw[T any](s []T) []byte {
	var x T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(x)))
}

// tile8 executes what tilesAMX calls.
func (m *machine) tile8(t *tile8) {
	c := []tileCall{{}}
	c[0].arrange(t)
	m.memory = [8][]byte{1: raw(c), 2: raw(t.a), 3: raw(t.panel), 4: raw(t.dst), 5: raw(t.init), 6: raw(t.segs)}
	for i, name := range []string{"a", "panel", "dst", "init", "segs"} {
		binary.LittleEndian.PutUint64(m.memory[1][symbols["tileCall_"+name]:], uint64(i+2)<<regionBits)
	}
	name := "gemm8AMXV2"
	if t.cols <= tileColumns {
		name = "gemm8AMXV1"
	}
	m.call(name)
}

// The product in tiles is that of the definition, for all sizes of tiles and segments and the extreme values.
func TestTilesOfAMX(t *testing.T) {
	m := newMachine(t)
	r := gemmAMX
	r.tile8 = m.tile8
	plain := Select(cpu.Features{})
	table := plain.With(r)
	rng := rand.New(rand.NewPCG(1, 2))
	bytes := func(n int) []uint8 {
		list := make([]uint8, n)
		for i := range list {
			list[i] = uint8(max(0, min(255, rng.IntN(512)-128)))
		}
		return list
	}
	for _, s := range [][3]int{{1, 1, 1}, {3, 5, 17}, {16, 64, 32}, {17, 65, 33}, {31, 130, 16}, {128, 63, 31}, {129, 256, 40}, {200, 3, 64},
		{20, 4096, 5}} {
		rows, k, n := s[0], s[1], s[2]
		a, w := bytes(rows*k), make([]int8, k*n)
		for i, b := range bytes(k * n) {
			w[i] = int8(b ^ 0x80)
		}
		terms := Terms{Column: make([]int32, n)}
		for i := range terms.Column {
			terms.Column[i] = int32(rng.Uint32())
		}
		if n%2 == 1 {
			terms.Row = make([]int32, rows)
			for i := range terms.Row {
				terms.Row[i] = int32(rng.Uint32())
			}
		}
		var sums [2][]int32
		for i, of := range []*Table{plain, table} {
			sums[i] = make([]int32, rows*n)
			of.PackGemmU8S8(w, k, n, n, false).Run(nil, a, k, rows, terms, &StoreS32{Dst: sums[i], Ldd: n})
		}
		require.Equal(t, sums[0], sums[1], "%v", s)
	}
	for _, s := range []ConvShape{
		{N: 1, C: 3, H: 11, W: 9, M: 20, KH: 3, KW: 3, StrideH: 2, StrideW: 2, PadTop: 1, PadLeft: 1, OutH: 6, OutW: 5},
		{N: 2, C: 70, H: 5, W: 19, M: 33, KH: 3, KW: 3, StrideH: 1, StrideW: 1, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 19},
		{N: 1, C: 24, H: 6, W: 6, M: 18, KH: 3, KW: 3, StrideH: 1, StrideW: 1, DilH: 2, DilW: 2, OutH: 2, OutW: 2, Group: 2},
		{N: 1, C: 96, H: 13, W: 13, M: 48, KH: 1, KW: 1, StrideH: 1, StrideW: 1, OutH: 13, OutW: 13},
	} {
		s = s.Full()
		src, w := bytes(s.InLen()), make([]int8, s.WeightLen())
		for i, b := range bytes(len(w)) {
			w[i] = int8(b ^ 0x80)
		}
		positions := s.N * s.OutD * s.OutH * s.OutW
		var sums [2][]int32
		for i, of := range []*Table{plain, table} {
			sums[i] = make([]int32, positions*s.M)
			var scratch []uint8
			of.PackConvU8S8(w, s).Run(nil, src, s, 77, &scratch, Terms{}, &StoreS32{Dst: sums[i], Ldd: s.M})
		}
		require.Equal(t, sums[0], sums[1], "%+v", s)
	}
}

// groups executes what groupsAMX calls.
func (m *machine) groups(t *groupTile) {
	c := []groupsCall{{}}
	c[0].arrange(t)
	m.memory = [8][]byte{1: raw(c), 2: raw(t.w), 3: raw(t.x), 4: raw(t.dst), 5: raw(t.sums), 6: make([]byte, 2*tileLen)}
	for i, name := range []string{"w", "x", "dst", "sums", "scratch"} {
		if i != 3 || t.sums != nil {
			binary.LittleEndian.PutUint64(m.memory[1][symbols["groupsCall_"+name]:], uint64(i+2)<<regionBits)
		}
	}
	m.call(fmt.Sprintf("groups%dAMX", t.bits))
}

// Products of groups in tiles are those of the definition, sums and results.
func TestGroupsInTiles(t *testing.T) {
	m := newMachine(t)
	plain := Select(cpu.Features{})
	rng := rand.New(rand.NewPCG(3, 4))
	for _, row := range vectorGroupsRows() {
		if row.many == nil {
			continue
		}
		calls := 0
		row.many = func(t *groupTile) { m.groups(t); calls++ }
		row.groups = goGroups // this processor may have no instructions for few rows
		for _, s := range [][4]int{{8, 16, 64, 32}, {16, 40, 192, 64}, {17, 33, 136, 136}, {40, 20, 48, 24}, {24, 70, 288, 64},
			{9, 24, 1024, 512}, {12, 33, 16, 8}} {
			matrix := GroupMatrix{Rows: s[1], Cols: s[2], Size: s[3], Bits: 8}
			if row.Op == OpGroups4 {
				matrix.Bits = 4
			}
			codes, scales := make([]int8, s[1]*s[2]), make([]float32, s[1]*s[2]/s[3])
			for i := range codes {
				codes[i] = int8(max(-128, min(127, rng.IntN(512)-256))) >> (8 - matrix.Bits)
			}
			for i := range scales {
				scales[i] = rng.Float32() - 0.5
			}
			matrix.Read = func(q []int8, d []float32, from int) {
				copy(q, codes[from:])
				copy(d, scales[from/s[3]:])
			}
			x := make([]float32, s[0]*s[2])
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			var dst [2][]float32
			var sums [2][]int32
			for i, of := range []*Table{plain, plain.With(row)} {
				g, err := of.PackGroups(nil, matrix)
				require.NoError(t, err)
				var rows GroupRows
				g.Prepare(&rows, nil, x, s[0])
				dst[i], sums[i] = make([]float32, 2*s[0]*s[1]), make([]int32, s[0]*g.TotalPieces())
				of.MulGroups(nil, &rows, []GroupsProduct{{Matrix: g, Dst: dst[i][:s[0]*s[1]]}, {Matrix: g, Dst: dst[i][s[0]*s[1]:], Sums: sums[i]}})
			}
			require.Equal(t, dst[0], dst[1], "%v %v", row.Name, s)
			require.Equal(t, sums[0], sums[1], "%v %v", row.Name, s)
		}
		require.Greater(t, calls, 7)
	}
}

// Where the processor has tiles, its products are the definition's, and where not, nothing asks it.
func TestTilesAreProved(t *testing.T) {
	require.True(t, soundAMX())
	require.True(t, soundGroupsAMX())
	for _, op := range []Op{OpGemmU8S8, OpGroups8, OpGroups4} {
		require.Equal(t, cpu.Detect().AMX, Select(cpu.Detect()).rows[op].ISA == "amx", "%v", op)
	}
}
