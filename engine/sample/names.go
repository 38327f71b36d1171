package sample

// Names of people from many places, the more common first. None holds a quote,
// a backslash or a control character; some hold an apostrophe, a space, a
// comma or letters of several bytes.
var firstNames = []string{
	"Anna", "Maria", "Peter", "John", "Thomas", "Eva", "Michael", "Sara", "David", "Laura", "Daniel", "Julia", "Martin", "Lena", "Paul", "Emma",
	"José", "Zoë", "Jürgen", "François", "Łukasz", "Søren", "Björn", "Małgorzata", "Jiří", "Chloé", "André", "Renée", "Ángel", "Øyvind", "Zoltán", "Ágnes",
	"Robert", "Elena", "Marco", "Giulia", "Andrea", "Luca", "Chiara", "Hans", "Ingrid", "Lars", "Astrid", "Nils", "Karin", "Jan", "Piet", "Femke",
	"Pierre", "Camille", "Luc", "Manon", "Carlos", "Lucía", "Diego", "Carmen", "Pablo", "Inés", "Tiago", "Beatriz", "Rui", "Joana", "Ivan", "Olga",
	"Дмитрий", "Анна", "Сергей", "Ольга", "Γιώργος", "Ελένη", "Νίκος", "Μαρία", "محمد", "فاطمة", "علي", "مريم", "דוד", "שרה", "美咲", "翔太",
	"伟", "芳", "娜", "敏", "민준", "서연", "지훈", "Nguyễn", "Thị", "Ayşe", "Mehmet", "Gülşen", "İbrahim", "Priya", "Rahul", "Anjali",
	"Kwame", "Amina", "Chidi", "Ngozi", "Tariq", "Leila", "Omar", "Yasmin", "Siobhán", "Pádraig", "Niamh", "Rhys", "Bronwyn", "Eoin", "Catríona", "Ewan",
	"Mary Ann", "Jean-Luc", "Anne-Marie", "Karl-Heinz", "D'Arcy", "Bo", "Li", "Aoife", "Matěj", "Žofie", "Škender", "Đorđe", "Ștefan", "Țiriac", "Ģirts", "Ķēniņš",
}

var lastNames = []string{
	"Smith", "Müller", "García", "Novák", "Jensen", "Rossi", "Martin", "Kowalski", "Nguyễn", "Kim", "Wang", "Li", "Sato", "Silva", "Ivanov", "Papadopoulos",
	"O'Brien", "O'Neill", "D'Angelo", "de la Cruz", "van den Berg", "von Trapp", "King, Jr.", "Löwe", "Strauß", "Çelik", "Yılmaz", "Åkesson", "Ćirić", "Šimek", "Žižka", "Đặng",
	"Иванова", "Петров", "Παππάς", "Οικονόμου", "حسن", "الخطيب", "כהן", "לוי", "佐藤", "鈴木", "王", "李", "김", "이", "Okonkwo", "Mbeki",
	"Patel", "Sharma", "Singh", "Hassan", "Cohen", "Schmidt-Wagner", "García Márquez", "Mac Cárthaigh", "ap Rhys", "Dubois", "Lefèvre", "Fernández", "Gonçalves", "Brânză", "Kővári", "Ødegård",
}

// Heads and tails of names that are put together.
var lastHeads = []string{
	"Berg", "Stein", "Lind", "Holm", "Wald", "Feld", "Rosen", "Gold", "Silber", "Eisen", "Stern", "Sonn", "Winter", "Sommer", "Hirsch", "Wolf",
	"Adler", "Falk", "Birk", "Eich", "Linden", "Buch", "Ahorn", "Kirch", "Schloss", "Burg", "Brück", "Bach", "Strand", "See", "Moor", "Heid",
	"Grün", "Weiß", "Schwarz", "Roth", "Blau", "Alt", "Neu", "Groß", "Klein", "Lang", "Hoch", "Ober", "Unter", "Nord", "Süd", "West",
	"Ost", "Mittel", "Ash", "Black", "Brad", "Clif", "Dal", "East", "Fair", "Green", "Hart", "Kings", "Lang", "Mar", "New", "Nor",
	"Oak", "Pem", "Red", "Shel", "Stan", "Thorn", "Wal", "White", "Wil", "Wood", "York", "Björk", "Sjö", "Ström", "Norr", "Söder",
	"Väster", "Öster", "Ny", "Gran", "Ek", "Alm", "Löv", "Blom", "Ros", "Hag", "Kvist", "Å", "Fors", "Sund", "Vik", "Ör",
}

var lastTails = []string{
	"mann", "berg", "stein", "thal", "bach", "hof", "haus", "burg", "dorf", "heim", "feld", "wald", "baum", "blatt", "zweig", "meyer",
	"huber", "bauer", "müller", "schmidt", "ton", "ford", "ley", "worth", "well", "ham", "by", "land", "field", "wood", "brook", "stone",
	"ström", "gren", "qvist", "lund", "dahl", "holm", "stedt", "sen", "sson", "dóttir", "ová", "ský", "wicz", "enko", "escu", "idis",
	"poulos", "oğlu", "zadeh", "yan", "shvili", "ev", "in", "uk", "ić", "aitis", "ėnas", "iņš", "la", "nen", "mäki", "järvi",
	"niemi", "lainen", "strand", "vik", "nes", "stad", "rud", "øy", "gaard", "skov", "toft", "bø", "hus", "borg", "vall", "fält",
	"ås", "näs", "fors", "mark", "hage", "äng", "sjö", "kvarn", "bro", "tjärn", "kulla", "rot", "löf", "krantz", "blad", "rist",
}
