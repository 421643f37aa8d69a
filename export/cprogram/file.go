package cprogram

import (
	"fmt"
	"strings"

	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// file puts the parts together.
func (w *writer) file(title string, size Size) string {
	var b strings.Builder
	profile := w.p.Profile
	fmt.Fprintf(&b, "/* %s\n\n   An integer program written by qwb: target %s, arithmetic profile %s,\n", plain(title), w.p.Target, profile.Name)
	fmt.Fprintf(&b, "     %s\n   rounded %s.\n\n", plain(profile.Doc.Formula), plain(profile.Doc.Rounding))
	fmt.Fprintf(&b, "     cc -std=c99 -O2 -ffp-contract=off -o program THIS.c && ./program INPUT.npy... OUTPUT.npy...\n\n")
	fmt.Fprintf(&b, "   %d bytes of constants, %d bytes of arena for what is computed on the way. No heap but in main, no libm.\n", size.Constants, size.Arena)
	b.WriteString("   -DQWB_NO_MAIN leaves main out; -DQWB_INTERFACE_ONLY leaves the interface, for files that include this one. */\n\n")
	b.WriteString("#ifndef QWB_INTERFACE\n#define QWB_INTERFACE\n\n#include <stddef.h>\n#include <stdint.h>\n\n")
	fmt.Fprintf(&b, "#define QWB_ARENA_BYTES %d\n#define QWB_INPUTS %d\n#define QWB_OUTPUTS %d\n", size.Arena, len(w.p.Inputs), len(w.p.Outputs))
	for k, id := range w.p.Inputs {
		fmt.Fprintf(&b, "#define QWB_INPUT_%d_BYTES %d /* %s */\n", k, w.bytes(id), w.typed(id))
	}
	for k, id := range w.p.Outputs {
		fmt.Fprintf(&b, "#define QWB_OUTPUT_%d_BYTES %d /* %s */\n", k, w.bytes(id), w.typed(id))
	}
	b.WriteString("\n/* One run. in and out have an array for every input and output, row-major, apart from each other. It is not reentrant: the\n")
	b.WriteString("   arena is static. */\nvoid qwb_run(const void *const *in, void *const *out);\n\n#endif\n\n#ifndef QWB_INTERFACE_ONLY\n\n")
	b.WriteString("#include <float.h>\n")
	if w.infinity {
		b.WriteString("#include <math.h>\n")
	}
	b.WriteString("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n")
	b.WriteString("\n#if FLT_EVAL_METHOD != 0\n#error \"float operations must be rounded to float: on x86 use -msse2 -mfpmath=sse\"\n#endif\n")
	b.WriteString("\n/* Arithmetic and operators. */\n")
	b.WriteString(w.kernels.text.String())
	b.WriteString("\n/* Weights, biases, multipliers and tables. */\n")
	b.WriteString(w.tables.String())
	fmt.Fprintf(&b, "\nstatic union {\n    uint8_t bytes[%d];\n    int64_t alignment;\n} arena;\n\n", (max(size.Arena, 1)+alignment-1)/alignment*alignment)
	b.WriteString("void qwb_run(const void *const *in, void *const *out) {\n")
	w.declare(&b)
	b.WriteString(w.body.String())
	b.WriteString("}\n\n#ifndef QWB_NO_MAIN\n\n")
	w.interfaces(&b)
	b.WriteString("\n" + w.kernels.library["main"].text)
	b.WriteString("\n#endif\n\n#endif\n")
	return b.String()
}

// declare writes the pointers to all arrays.
func (w *writer) declare(b *strings.Builder) {
	for k, id := range w.p.Inputs {
		v := w.values[id]
		fmt.Fprintf(b, "    const %s *const %s = in[%d]; /* %s */\n", cTypes[v.dtype.String()], v.name, k, w.typed(id))
	}
	for _, v := range w.arrays {
		if v.alias != nil {
			continue
		}
		t := cTypes[v.dtype.String()]
		where := fmt.Sprintf("(%s *)(arena.bytes + %d)", t, v.offset)
		if v.at != "" {
			where = v.at
		}
		fmt.Fprintf(b, "    %s *const %s = %s; /* %s, %s */\n", t, v.name, where, plain(v.what), tensor.TypeString(v.dtype, v.shape))
	}
	b.WriteString("    (void)in, (void)out, (void)arena;\n")
}

// interfaces writes what main has to know of inputs and outputs.
func (w *writer) interfaces(b *strings.Builder) {
	b.WriteString("struct qwb_tensor {\n    const char *name, *descr, *shape;\n    size_t count, size;\n};\n\n")
	for _, list := range []struct {
		name string
		ids  []lower.TensorID
	}{{"inputs", w.p.Inputs}, {"outputs", w.p.Outputs}} {
		fmt.Fprintf(b, "static const struct qwb_tensor qwb_%s[] = {\n", list.name)
		for _, id := range list.ids {
			t := &w.p.Tensors[id]
			fmt.Fprintf(b, "    {%s, \"'%s'\", \"%s\", %d, %d},\n", quoted(t.Name), descr(t.DType), pythonShape(w.shape(id)), w.count(id), t.DType.Bytes(1))
		}
		b.WriteString("    {0, 0, 0, 0, 0},\n};\n")
	}
}

func (w *writer) typed(id lower.TensorID) string {
	return plain(w.p.Tensors[id].Name + " " + tensor.TypeString(w.p.Tensors[id].DType, w.shape(id)))
}

func (w *writer) bytes(id lower.TensorID) int { return w.p.Tensors[id].DType.Bytes(w.count(id)) }

// descr is NumPy's name of a type.
func descr(d tensor.DType) string {
	switch d {
	case tensor.Bool:
		return "|b1"
	case tensor.Uint8:
		return "|u1"
	case tensor.Int8:
		return "|i1"
	case tensor.Uint16:
		return "<u2"
	case tensor.Int16:
		return "<i2"
	case tensor.Int32:
		return "<i4"
	case tensor.Int64:
		return "<i8"
	}
	return "<f4"
}

// pythonShape is a tuple without spaces.
func pythonShape(shape []int) string {
	s := "("
	for i, n := range shape {
		if i > 0 {
			s += ","
		}
		s += fmt.Sprint(n)
	}
	if len(shape) == 1 {
		s += ","
	}
	return s + ")"
}

// quoted is a string constant.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~' || c == '?':
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
