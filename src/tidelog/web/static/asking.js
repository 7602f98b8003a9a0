// Requests to the page's server. They return `told` or `error` and never throw: the server may refuse or be down.

export async function asked(address, options) {
  try {
    const answer = await fetch(address, options);
    const text = await answer.text();
    if (answer.ok) return { told: JSON.parse(text) };
    return { error: (reason(text) ?? text.trim()) || `the page's server answered with status ${answer.status}` };
  } catch (error) {
    return { error: `the page's server does not answer: ${error.message}` };
  }
}

function reason(text) {
  return text.startsWith("{") ? JSON.parse(text).error : undefined;
}
