// Every screen has a URL: #/tail?topic=orders&where=total+%3E+100

export function hashOf(name, params = {}) {
  const values = new URLSearchParams(params).toString();
  return `#/${name}${values ? `?${values}` : ""}`;
}

export function parsed() {
  const [name, values] = location.hash.replace(/^#\/?/, "").split("?");
  return { name, params: Object.fromEntries(new URLSearchParams(values ?? "")) };
}
