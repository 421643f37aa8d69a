package weights

import (
	"qwb/graph/checkpoint"
	"qwb/quantizer/tqc"
)

// Format is one kind of file.
type Format struct {
	Name   string // what the command line calls it
	Title  string // in a few words
	Suffix string // of a file's name
	// Matrices are the forms that matrices can have in the file, by the names of Options.Matrices, the default first.
	Matrices []string
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
	// Matrices is one of Format.Matrices; empty: the first.
	Matrices string
	// Search looks for the scale of every group with the smallest squared error.
	Search bool
	// Vocabulary goes into formats that hold one; nil where it is not known.
	Vocabulary *Vocabulary
}

// Vocabulary is the tokens of a model as formats store them.
type Vocabulary struct {
	Pieces []Piece
	BOS    int // id that begins a text; -1: none
	EOS    int // id that ends one; -1: none
	// Merges are the pairs of byte-pair encoding, "a b", in the order in which they are joined; nil where Score says it.
	Merges []string
	// Pre names the rule by which byte-pair encoding cuts text into words, as GGUF calls it; empty: "default".
	Pre string
}

// Piece is one token.
type Piece struct {
	Text  string // a space is a space; of byte-pair encoding: the letters that stand for bytes
	Score float32
	Kind  Kind
}

// Kind is what a token is. The numbers are those of SentencePiece and GGUF.
type Kind int32

const (
	Normal      Kind = 1
	Unknown     Kind = 2
	Control     Kind = 3
	UserDefined Kind = 4
	Unused      Kind = 5
	Byte        Kind = 6 // Text is "<0xHH>"
)

// File is the layout of a file: its items follow each other without gaps.
type File struct {
	Items    []Item
	Config   checkpoint.Config // what a reader of the file gets
	Source   *checkpoint.Model
	Warnings []tqc.Warning
}

// Item is some bytes, or a tensor.
type Item struct {
	Bytes    []byte             // written as they are; Tensor is nil
	Tensor   *checkpoint.Tensor // where the elements come from
	Part     checkpoint.Part    // what they are in the file
	Encoding Encoding
	// Row says which row of the source (of a vector: which element) a row of the file is; nil: the same.
	Row func(row int) int
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
		n += f.Items[i].size()
	}
	return n
}

func (it *Item) size() int64 {
	if it.Tensor == nil {
		return int64(len(it.Bytes))
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
