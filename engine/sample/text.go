package sample

// appendQuoted appends a CSV field. No name holds a quote, so a comma is the
// only reason to put it into quotes.
func appendQuoted(b []byte, s string) []byte {
	for n := range len(s) {
		if s[n] == ',' {
			b = append(b, '"')
			b = append(b, s...)
			return append(b, '"')
		}
	}
	return append(b, s...)
}

// appendMoney appends hundredths as a number with two decimals.
func appendMoney(b []byte, hundredths int64) []byte {
	if hundredths < 0 {
		b = append(b, '-')
		hundredths = -hundredths
	}
	b = appendInt(b, hundredths/100)
	return append(b, '.', byte('0'+hundredths/10%10), byte('0'+hundredths%10))
}

// appendInt appends a number of zero or more.
func appendInt(b []byte, v int64) []byte {
	var buf [20]byte
	at := len(buf)
	for {
		at--
		buf[at] = byte('0' + v%10)
		if v /= 10; v == 0 {
			return append(b, buf[at:]...)
		}
	}
}

// appendDate appends days since 1970-01-01 as YYYY-MM-DD, for the years 1 to
// 9999 (Hinnant's civil_from_days).
func appendDate(b []byte, days int64) []byte {
	z := days + 719_468
	era := z / 146_097
	doe := z - era*146_097
	yoe := (doe - doe/1460 + doe/36_524 - doe/146_096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d, m, y := doy-(153*mp+2)/5+1, mp+3, yoe+era*400
	if m > 12 {
		m, y = m-12, y+1
	}
	return append(b, byte('0'+y/1000), byte('0'+y/100%10), byte('0'+y/10%10), byte('0'+y%10), '-',
		byte('0'+m/10), byte('0'+m%10), '-', byte('0'+d/10), byte('0'+d%10))
}

// appendTime appends seconds since 1970-01-01 as a time that PostgreSQL and
// RFC 3339 both read.
func appendTime(b []byte, secs int64) []byte {
	b = appendDate(b, secs/86_400)
	t := secs % 86_400
	h, m, s := t/3600, t/60%60, t%60
	return append(b, 'T', byte('0'+h/10), byte('0'+h%10), ':', byte('0'+m/10), byte('0'+m%10), ':', byte('0'+s/10), byte('0'+s%10), 'Z')
}
