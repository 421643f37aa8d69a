package options

// Field is how a form of the page shows an option. Whether it is a box, a number or a text follows from the option where Type is empty.
type Field struct {
	Label string `json:"label"`
	Type  string `json:"type,omitempty"` // select, many (boxes), range, or file
	Of    string `json:"of,omitempty"`   // with file: the kind
	Doc   string `json:"doc,omitempty"`
	Hint  string `json:"placeholder,omitempty"` // in the field while it is empty
	// The choices of select and many, and proposals for a text: a list of State by its key, or Choices. None is what leaving it open is
	// called.
	List    string   `json:"list,omitempty"`
	Choices []Choice `json:"choices,omitempty"`
	None    string   `json:"none,omitempty"`
	Value   any      `json:"value,omitempty"` // proposed
}

// Choice is one of a few.
type Choice struct {
	Name  string `json:"name"`
	Label string `json:"label"`
}

// Shown is an option as the page knows it.
type Shown struct {
	Name string `json:"name"` // the key in JSON
	// Type is flag, count (0 or more), number, text, list (one for each time it is given), commas (a list with commas between), or object.
	Type  string `json:"type"`
	Field *Field `json:"field,omitempty"`
}

// Shown are the rows as the page knows them.
func (t Table) Shown() []Shown {
	list := make([]Shown, len(t))
	for i := range t {
		list[i] = Shown{t[i].Key(), t[i].kind(), t[i].Field}
	}
	return list
}

func (o *Option) kind() string {
	switch o.At.(type) {
	case *bool:
		return "flag"
	case *int, **int, *uint64:
		if !o.Signed {
			return "count"
		}
		return "number"
	case *float64, **float64:
		return "number"
	case *string, *Commas:
		return "text"
	case *[]string:
		return "list"
	case *List:
		return "commas"
	}
	return "object"
}
