package change

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"headroom/host"
)

// nftables is the dialect of nft.
type nftables struct{}

var nftTable = regexp.MustCompile(`^(ip|ip6|inet|arp|bridge|netdev) [A-Za-z_][A-Za-z0-9_./\\-]{0,200}$`)

func (nftables) valid(table string) bool { return nftTable.MatchString(table) }

func (nftables) loader() []string { return []string{"nft", "-f", "-"} }
func (nftables) tester() []string { return []string{"nft", "--check", "-f", "-"} }
func (nftables) listers() [][]string {
	return [][]string{{"nft", "list", "ruleset"}, {"nft", "--stateless", "list", "ruleset"}}
}

func (nftables) look(ctx context.Context, r host.Reader, tables []string) (full, still string, err error) {
	names, err := r.Look(ctx, "nft", "list", "tables")
	if err != nil {
		return "", "", err
	}
	there := map[string]bool{}
	for line := range strings.Lines(string(names)) {
		there[strings.TrimPrefix(strings.TrimSpace(line), "table ")] = true
	}
	for _, t := range tables {
		if !there[t] {
			continue
		}
		family, name, _ := strings.Cut(t, " ")
		a, err := r.Look(ctx, "nft", "list", "table", family, name)
		if err != nil {
			return "", "", err
		}
		b, err := r.Look(ctx, "nft", "--stateless", "list", "table", family, name)
		if err != nil {
			return "", "", err
		}
		full, still = full+string(a), still+string(b)
	}
	return full, still, nil
}

// script makes each table, so that removing it cannot fail, removes it and
// makes it anew: nft does all of a file in one transaction.
func (nftables) script(tables []string, content string) (string, error) {
	if err := onlyTables(content, tables); err != nil {
		return "", err
	}
	var out strings.Builder
	for _, t := range tables {
		fmt.Fprintf(&out, "table %s\ndelete table %s\n", t, t)
	}
	out.WriteString(content)
	if content != "" && !strings.HasSuffix(content, "\n") {
		out.WriteByte('\n')
	}
	return out.String(), nil
}

// onlyTables refuses a content that is anything but blocks of the named
// tables: whatever else it said could reach somebody else's.
func onlyTables(content string, tables []string) error {
	depth, start, line := 0, true, 1
	var head []string
	for _, tok := range nftTokens(content) {
		switch {
		case tok == "\n" || tok == ";":
			line += strings.Count(tok, "\n")
			if depth == 0 && len(head) > 0 {
				return fmt.Errorf("read rules: line %d: %q is no table block", line, strings.Join(head, " "))
			}
			start = true
			continue
		case start && slices.Contains([]string{"include", "define", "redefine", "undefine"}, tok):
			return fmt.Errorf("read rules: line %d: %q is not taken here: give the tables as `nft list table` writes them", line, tok)
		case tok == "{" && depth == 0:
			if len(head) != 3 || head[0] != "table" || !slices.Contains(tables, head[1]+" "+head[2]) {
				return fmt.Errorf("read rules: line %d: %q is none of the named tables (%s)", line, strings.Join(head, " "), strings.Join(tables, ", "))
			}
			depth, head = 1, nil
		case tok == "{":
			depth++
		case tok == "}":
			if depth--; depth < 0 {
				return fmt.Errorf("read rules: line %d: a brace too many", line)
			}
		case depth == 0:
			head = append(head, tok)
		}
		start = tok == "{" || tok == "}"
	}
	if depth > 0 || len(head) > 0 {
		return fmt.Errorf("read rules: line %d: they end in the middle", line)
	}
	return nil
}

// nftTokens takes a file apart: words, quoted texts, braces, ends of lines and
// semicolons. Comments are left out; an end of line after a backslash is none.
func nftTokens(s string) []string {
	var out []string
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '#':
			if n := strings.IndexByte(s[i:], '\n'); n >= 0 {
				i += n
			} else {
				i = len(s)
			}
		case c == '"':
			n := strings.IndexByte(s[i+1:], '"')
			if n < 0 {
				n = len(s) - i - 2
			}
			out = append(out, s[i:i+n+2])
			i += n + 2
		case c == '\\' && strings.HasPrefix(s[i+1:], "\n"):
			i += 2
		case strings.IndexByte("{};\n", c) >= 0:
			out = append(out, s[i:i+1])
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		default:
			n := strings.IndexAny(s[i:], "{};\n \t\r\"#")
			if n < 0 {
				n = len(s) - i
			}
			out = append(out, s[i:i+n])
			i += n
		}
	}
	return out
}

func (nftables) listed(full, still string, tables []string) (State, []string, error) {
	st := State{Present: true, Stored: map[string]string{}}
	whole, all, err := nftBlocks(full)
	if err != nil {
		return st, nil, err
	}
	quiet, _, err := nftBlocks(still)
	if err != nil {
		return st, nil, err
	}
	for _, t := range tables {
		if block, ok := quiet[t]; ok {
			st.Stored[t] = inOrder(withoutMoving(block))
			st.Loads += whole[t]
		}
	}
	return st, all, nil
}

// nftBlocks cuts a listing into its tables.
func nftBlocks(listing string) (blocks map[string]string, names []string, err error) {
	blocks = map[string]string{}
	var block strings.Builder
	name := ""
	for line := range strings.Lines(listing) {
		if name == "" {
			f := strings.Fields(line)
			if len(f) == 0 || f[0] == "#" {
				continue
			}
			if len(f) < 4 || f[0] != "table" || f[3] != "{" {
				return nil, nil, fmt.Errorf("read rules: %s begins no table", clip(line))
			}
			name = f[1] + " " + f[2]
			names = append(names, name)
		}
		block.WriteString(line)
		if strings.HasPrefix(line, "}") {
			blocks[name] = block.String()
			block.Reset()
			name = ""
		}
	}
	if name != "" {
		return nil, nil, fmt.Errorf("read rules: the listing ends in the middle of table %s", name)
	}
	return blocks, names, nil
}

// withoutMoving leaves out the elements of those sets that packets and time
// change: they are nobody's edit.
func withoutMoving(table string) string {
	var out, set strings.Builder
	inSet, moving := false, false
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "\tset ") || strings.HasPrefix(line, "\tmap ") || strings.HasPrefix(line, "\tmeter ") {
			inSet, moving = true, false
		}
		if !inSet {
			out.WriteString(line)
			continue
		}
		set.WriteString(line)
		word := strings.TrimSpace(line)
		moving = moving || strings.HasPrefix(word, "timeout ") ||
			strings.HasPrefix(word, "flags ") && (strings.Contains(word, "dynamic") || strings.Contains(word, "timeout"))
		if line != "\t}\n" {
			continue
		}
		text := set.String()
		if at := strings.Index(text, "\t\telements = {"); moving && at >= 0 {
			text = text[:at] + "\t}\n"
		}
		out.WriteString(text)
		set.Reset()
		inSet = false
	}
	out.WriteString(set.String())
	return out.String()
}

// inOrder sorts the elements of sets of flags. nft 1.0.6 lists those in an
// order that depends on the order in which they were loaded, so that its own
// listing, loaded again, is listed in another one.
func inOrder(table string) string {
	if !strings.Contains(table, " | ") {
		return table
	}
	var out strings.Builder
	for table != "" {
		at := strings.IndexAny(table, "\"{")
		if at < 0 {
			break
		}
		end := at + 1
		if table[at] == '"' {
			end += strings.IndexByte(table[end:], '"') + 1
		} else if elements, n := setOf(table[at:]); n > 0 {
			slices.Sort(elements)
			out.WriteString(table[:at] + "{ " + strings.Join(elements, ", ") + " }")
			table = table[at+n:]
			continue
		}
		out.WriteString(table[:end])
		table = table[end:]
	}
	out.WriteString(table)
	return out.String()
}

// setOf reads a set of flags that a text begins with, n bytes; 0: it begins
// with another block.
func setOf(text string) (elements []string, n int) {
	element, flags := 1, false
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '{', ';', '"': // a chain, or elements with comments: those are left as they are
			return nil, 0
		case '|':
			flags = true
		case ',', '}':
			elements = append(elements, strings.TrimSpace(text[element:i]))
			element = i + 1
			if text[i] == '}' && flags {
				return elements, i + 1
			} else if text[i] == '}' {
				return nil, 0
			}
		}
	}
	return nil, 0
}
