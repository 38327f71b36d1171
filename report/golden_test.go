package report

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"headroom/change"
	"headroom/testkit"
	"headroom/trial"
)

// everything is one section of each kind, with realistic data.
func everything(t *testing.T) map[string]Section {
	t.Helper()
	r := walTrial(t)
	c, err := trial.Compare(r, sameTrialLater(t))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]Section{
		"findings": Findings(someFindings(), someFacts(t)),
		"facts":    Facts(someFacts(t), nil),
		"plan":     Plan(somePlan(), "max_wal_size.plan"),
		"journal":  Journal(someJournal()),
		"entry":    Entry(someJournal()[1]),
		"moved": Moved(&change.Moved{Verb: "apply postgres.setting max_wal_size=10GB", Titles: [3]string{"planned from", "now", "wanted"},
			Rows: []change.MovedRow{{Name: "max_wal_size (in force)", Values: [3]string{"1GB", "2GB", "10GB"}}}}),
		"trial":      Trial(r),
		"sweep":      Trial(sweepTrial(t)),
		"comparison": Comparison(c),
	}
}

func sameTrialLater(t *testing.T) *trial.Result {
	t.Helper()
	r := walTrial(t)
	for i := range r.Rounds {
		r.Rounds[i].Figures["rate"] *= 0.9
	}
	r.Options.Rate = 9000
	return r
}

func TestGolden(t *testing.T) {
	for name, s := range everything(t) {
		for _, f := range []Format{Text, JSON, CSV, Markdown, HTML} {
			t.Run(name+"."+string(f), func(t *testing.T) {
				var b bytes.Buffer
				if err := Render(&b, f, Terminal{Width: 80, UTF8: true}, "Headroom: "+name, s); err != nil {
					t.Fatal(err)
				}
				golden(t, filepath.Join("testdata", name+"."+string(f)), b.Bytes())
			})
		}
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if testkit.Updating() {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (run with -update and look at it):\n%s", file, got)
	}
}
