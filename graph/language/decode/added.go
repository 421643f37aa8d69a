package decode

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"qwb/internal/arrange"
)

// addedToken is a token that is found in a text before anything else, such as <|im_start|>.
type addedToken struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	Left       bool   `json:"lstrip"`     // takes the white space in front of it
	Right      bool   `json:"rstrip"`     // and behind it
	Normalized bool   `json:"normalized"` // is looked for in the normalised text
	Special    bool   `json:"special"`    // controls; never part of a text
}

// addedTokens finds tokens in a text: at the first place where there is one, the longest.
type addedTokens struct {
	byFirst [256][]addedToken // by the first byte, the longest first
}

func newAddedTokens(tokens []addedToken) (*addedTokens, error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	a := &addedTokens{}
	for _, t := range tokens {
		if t.Content == "" {
			return nil, fmt.Errorf("the added token %d is empty", t.ID)
		}
		if t.SingleWord {
			return nil, errors.New("the added token " + t.Content + " is to be a single word: that is not supported")
		}
		a.byFirst[t.Content[0]] = append(a.byFirst[t.Content[0]], t)
	}
	for _, list := range a.byFirst {
		arrange.Stable(list, func(x, y addedToken) int { return cmp.Compare(len(y.Content), len(x.Content)) })
	}
	return a, nil
}

// at returns the longest token that a text, which is not empty, begins with.
func (a *addedTokens) at(s string) (t addedToken, ok bool) {
	if a == nil {
		return t, false
	}
	i := slices.IndexFunc(a.byFirst[s[0]], func(t addedToken) bool { return strings.HasPrefix(s, t.Content) })
	if i < 0 {
		return t, false
	}
	return a.byFirst[s[0]][i], true
}

// each calls token for every token in the text and text for every part between them, in order. A nil receiver finds none.
func (a *addedTokens) each(s string, token func(id int), text func(part string)) {
	from := 0
	for at := 0; a != nil && at < len(s); {
		t, ok := a.at(s[at:])
		if !ok {
			at++
			continue
		}
		before := s[from:at]
		if t.Left {
			before = strings.TrimRightFunc(before, unicode.IsSpace)
		}
		if before != "" {
			text(before)
		}
		token(t.ID)
		at += len(t.Content)
		if t.Right {
			at = len(s) - len(strings.TrimLeftFunc(s[at:], unicode.IsSpace))
		}
		from = at
	}
	if from < len(s) {
		text(s[from:])
	}
}
