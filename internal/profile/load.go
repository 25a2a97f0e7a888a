package profile

import (
	"cmp"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/yamldoc"
)

//go:embed presets/*.yaml
var presets embed.FS

//go:embed profile.schema.json
var schema []byte

// Schema is the JSON Schema of a profile file.
func Schema() []byte { return slices.Clone(schema) }

// Names lists the embedded profiles, the calibrated ones first.
func Names() []string {
	list := All()
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	return names
}

// All gives the embedded profiles, the calibrated ones first.
func All() []Profile {
	entries, err := presets.ReadDir("presets")
	if err != nil {
		panic("profile: " + err.Error()) // the folder is part of the program
	}
	var list []Profile
	for _, entry := range entries {
		data, err := presets.ReadFile(path.Join("presets", entry.Name()))
		if err != nil {
			panic("profile: " + err.Error())
		}
		p, err := Decode(entry.Name(), data)
		if err != nil {
			panic("profile: an embedded profile is wrong: " + err.Error())
		}
		list = append(list, *p)
	}
	slices.SortStableFunc(list, func(a, b Profile) int {
		return cmp.Or(cmp.Compare(rank(a.Kind), rank(b.Kind)), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func rank(kind string) int {
	if kind == KindCalibrated {
		return 0
	}
	return 1
}

// Named gives an embedded profile. An unknown name is an error that lists the nearest ones.
func Named(name string) (*Profile, error) {
	data, err := presets.ReadFile(path.Join("presets", name+".yaml"))
	if err == nil && nameRule.MatchString(name) {
		return Decode(name+".yaml", data)
	}
	return nil, &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: fmt.Sprintf("there is no profile %q", name),
		Next: "The nearest: " + strings.Join(nearest(name, Names()), ", ") + ". All: speedmatrix sim --list. A file of your own is given by its path."}
}

// Decode reads a profile file, fills in what its estimate gives, and checks it. The error names the line or the
// field and what it may be.
func Decode(file string, data []byte) (*Profile, error) {
	p := &Profile{}
	if err := yamldoc.Decode(file, data, p); err != nil {
		return nil, &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: err.Error(), Next: "The fields are described in the schema: speedmatrix sim --schema.", Err: err}
	}
	p.fill()
	if err := p.Check(); err != nil {
		return nil, err
	}
	return p, nil
}

// Encode writes a profile as a file that Decode reads.
func (p *Profile) Encode() ([]byte, error) { return yamldoc.Encode(p) }

// nearest orders names by how many letters differ from what was typed; names that contain it come first. At most three.
func nearest(typed string, names []string) []string {
	typed = strings.ToLower(typed)
	score := func(name string) int {
		if typed != "" && strings.Contains(name, typed) {
			return 0
		}
		return 1 + edits(typed, name)
	}
	list := slices.Clone(names)
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(score(a), score(b)) })
	return list[:min(3, len(list))]
}

// edits is the number of letters to insert, remove or change.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
