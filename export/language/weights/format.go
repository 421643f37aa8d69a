package weights

import (
	"qwb/export"
	"qwb/graph/language/checkpoint"
	"qwb/quantizer/tqc"
)

// Format is one kind of file; its Export is the format as package export has it.
type Format struct {
	Name   string // what the command line calls it
	Title  string // in a few words
	Suffix string // of a file's name
	Note   string // what a user of the engine has to know, for help; may be empty
	// Matrices are the forms that matrices can have in the file, by the names of Options.Matrices, the default first.
	Matrices []string
	// Types are the types that single matrices may have, whatever the others have; nil: all are of one form.
	Types []checkpoint.Type
	// Tokenizer says that the file holds the tokens where they are known.
	Tokenizer bool
	// Shape says that the format holds less than the model's shape: a config.json is written beside the file.
	Shape bool
	// NormEps is the only epsilon of the norms that the engine has; 0: any. Models with another are written as ones that compute the same.
	// Of those that cannot be, as their integers are to stay, a format that AnyEps keeps the epsilon: its engine has to be told.
	NormEps float32
	AnyEps  bool
	// Folder is the name of the file where the format is a folder, "" of others. Beside writes what else is in it.
	Folder string
	Beside func(f *File, out *export.Output) error
	// Layout says what the file of a model consists of, or why the format cannot hold the model.
	Layout func(m *checkpoint.Model, o Options) (*File, error)
	// Open reads a file that was written, for the comparison. want is its layout's Config: what the format does not hold is taken
	// from there.
	Open func(path string, want *checkpoint.Config) (*checkpoint.Model, error)
}

// Options are what a user can choose. The zero value is usable.
type Options struct {
	// Group is how many neighbours share a scale where the format leaves that open; 0: Groups's choice.
	Group int
	// Usual is the group where none is asked for, of a source that has integers with scales; 0: the format's.
	Usual int
	// Fallback is one of Fallbacks; empty: what the format itself does.
	Fallback string
	// Matrices is one of Format.Matrices; empty: the first.
	Matrices string
	// Types are those of single matrices, of Format.Types; the others have the form of Matrices.
	Types map[checkpoint.Part]checkpoint.Type
	// Search looks for the scale of every group with the smallest squared error.
	Search bool
	// Tokenizer is what GGUF's metadata say about the tokens (tokenizer.ggml.model, tokenizer.ggml.tokens and so on), for formats that
	// hold them; nil where they are not known.
	Tokenizer map[string]any
}

// File is the layout of a file: its items follow each other without gaps.
type File struct {
	Items    []Item
	Config   checkpoint.Config // what a reader of the file gets
	Source   *checkpoint.Model
	Types    []checkpoint.Type // Format.Types
	Warnings []tqc.Warning
	// Unlike says why the engine computes something else from this file than the file says; empty: nothing is known that would.
	Unlike string
	// State is what Layout leaves for Beside.
	State any
}

// Item is some bytes, or a tensor.
type Item struct {
	Bytes    []byte             // written as they are; Tensor is nil
	Tensor   *checkpoint.Tensor // where the elements come from
	Part     checkpoint.Part    // what they are in the file
	Encoding Encoding
	// Row says which row of the source (of a vector: which element) a row of the file is; nil: the same.
	Row func(row int) int
	// Global is what the scales of a matrix of NVFP4 are multiplied with before they are stored.
	Global float32
	// Input is the scale of what a matrix reads, where the Scheme is Static.
	Input float32

	carried bool // the integers of the source are written
	again   bool // the source is quantized, and is once more
}

// Add appends bytes.
func (f *File) Add(b []byte) { f.Items = append(f.Items, Item{Bytes: b}) }

// Warn adds a warning about the whole file.
func (f *File) Warn(text string, value float64) {
	f.Warnings = append(f.Warnings, tqc.Warning{Text: text, Value: value})
}

// Size is the length of the file in bytes.
func (f *File) Size() int64 {
	var n int64
	for i := range f.Items {
		n += f.Items[i].Size()
	}
	return n
}

// Size is how many bytes the item takes.
func (it *Item) Size() int64 {
	switch {
	case it.Tensor == nil:
		return int64(len(it.Bytes))
	case it.Encoding.Type == checkpoint.Packed:
		n := 0
		for _, a := range it.Arrays("") {
			n += a.Size()
		}
		return int64(n)
	}
	return it.Encoding.Size(it.Tensor.Len())
}

// Elements is how many elements the tensors of the file have.
func (f *File) Elements() int64 {
	var n int64
	for i := range f.Items {
		if t := f.Items[i].Tensor; t != nil {
			n += int64(t.Len())
		}
	}
	return n
}
