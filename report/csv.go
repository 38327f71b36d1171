package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// renderCSV writes each section's bare values, RFC 4180, one blank line
// between sections.
func renderCSV(w io.Writer, sections []Section) error {
	for i, s := range sections {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		c := csv.NewWriter(w)
		rows := append([][]string{s.sheet.columns}, s.sheet.rows...)
		for _, row := range rows {
			safe := make([]string, len(row))
			for j, cell := range row {
				safe[j] = csvCell(cell)
			}
			if err := c.Write(safe); err != nil {
				return fmt.Errorf("write csv: %w", err)
			}
		}
		c.Flush()
		if err := c.Error(); err != nil {
			return fmt.Errorf("write csv: %w", err)
		}
	}
	return nil
}

// csvCell keeps a spreadsheet from taking text for a formula.
func csvCell(s string) string {
	s = clean(s)
	if s == "" || !strings.ContainsRune("=+-@", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

// bare writes a figure for programs: the shortest form that reads back the same.
func bare(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
