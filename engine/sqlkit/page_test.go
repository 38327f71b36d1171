package sqlkit_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

var block = regexp.MustCompile("(?s)```sql\n(.*?)```")

// TestThePagesExamples runs every SQL block of the user's page; the comment
// lines after a statement are what it answers.
func TestThePagesExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		must(t, c, "set timezone = 'UTC'")
		ran := 0
		for _, b := range block.FindAllStringSubmatch(string(page), -1) {
			statement := ""
			lines := strings.Split(strings.TrimSpace(b[1]), "\n")
			for i := 0; i < len(lines); i++ {
				statement += lines[i] + "\n"
				if !strings.HasSuffix(lines[i], ";") {
					continue
				}
				var want []string
				for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "-- ") {
					i++
					want = append(want, strings.TrimPrefix(lines[i], "-- "))
				}
				if got := answer(c, statement); len(want) > 0 && got != strings.Join(want, "\n") || len(want) == 0 && strings.HasPrefix(got, "ERROR") {
					t.Errorf("%sanswers\n%s\nand not\n%s", statement, got, strings.Join(want, "\n"))
				}
				statement, ran = "", ran+1
			}
			if statement != "" {
				t.Errorf("a statement without end: %s", statement)
			}
		}
		if ran < 20 {
			t.Errorf("only %d statements found", ran)
		}
		for _, f := range publicNames(t, c) {
			if !strings.Contains(string(page), strings.TrimPrefix(f, "is_")) {
				t.Errorf("the page does not tell of %s", f)
			}
		}
	})
}

func publicNames(t *testing.T, c *pgx.Conn) []string {
	rows, err := c.Query(t0, `select distinct proname::text from pg_proc where pronamespace = 'headroom'::regnamespace and proname not like '\_%'`)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// answer is what psql would show of a statement's rows, booleans written out.
func answer(c *pgx.Conn, statement string) string {
	results, err := c.PgConn().Exec(t0, statement).ReadAll()
	if err != nil {
		return strings.TrimSpace(strings.Split(err.Error(), " (SQLSTATE")[0])
	}
	var out []string
	for _, r := range results {
		for _, row := range r.Rows {
			var cells []string
			for i, v := range row {
				cell := string(v)
				if r.FieldDescriptions[i].DataTypeOID == 16 {
					cell = map[string]string{"t": "true", "f": "false"}[cell]
				}
				cells = append(cells, cell)
			}
			out = append(out, strings.Join(cells, " | "))
		}
	}
	return strings.Join(out, "\n")
}
